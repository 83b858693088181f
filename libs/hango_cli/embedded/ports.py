"""Picking a TCP port that can be kept over restarts."""

import secrets
import socket

# Below Linux's default range for outgoing connections (32768 up): a port from within it could be
# taken by any client while the server is down, and then the server's address would change.
_RANGE = range(20_000, 32_768)


def choose_port(preferred: int = 0) -> int:
    """`preferred` if it is free on 127.0.0.1, else another free one. Bind soon: it is a race."""
    if preferred and _is_free(preferred):
        return preferred
    for _ in range(100):
        candidate = secrets.choice(_RANGE)
        if _is_free(candidate):
            return candidate
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers do
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
