"""Runs as a script between fork and exec of a tool server: `child.py PARENT ARGV...`.

Asks the kernel to kill this process when its parent ends, then becomes ARGV under the same pid:
`kill -9` of the runner must not leave servers behind that nobody talks to. exec keeps the wish
(prctl(2), PR_SET_PDEATHSIG). A script, because a `preexec_fn` is not safe in a process with
threads; run with `python -I -S`, so standard library only.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Become the server, or exit with the reason on stderr."""
    parent, *command = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != int(parent):  # it ended before we asked
        sys.exit("the runner is gone")
    try:
        os.execv(command[0], command)  # noqa: S606 - a list of arguments, and no shell
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
