"""Runs as a script between fork and exec of a server: `shim.py SIGNAL UID GID PARENT ARGV...`.

Drops privileges (uid -1: none to drop), asks the kernel to send SIGNAL when the parent ends, and
becomes ARGV under the same pid. The order matters: a change of uid clears the parent-death signal,
and exec keeps it (prctl(2), PR_SET_PDEATHSIG). A script rather than a `preexec_fn`, which is not
safe in a process with threads; it is run by path with `python -I -S`, so standard library only.
"""

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Become the server, or exit with the reason on stderr."""
    signal_number, uid, gid, parent = map(int, sys.argv[1:5])
    command = sys.argv[5:]
    libc = ctypes.CDLL(None, use_errno=True)  # before the drop: it may lie where we cannot read
    if uid >= 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    if libc.prctl(_PR_SET_PDEATHSIG, signal_number) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:  # it died before we asked to be told
        sys.exit("the parent is gone")
    os.execv(command[0], command)  # noqa: S606 - a list of arguments, and no shell


if __name__ == "__main__":
    main()
