"""A pgbouncer in transaction mode, in front of a test's server."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from hango_cli.embedded.ports import choose_port

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
_NOBODY = 65534


@dataclass(frozen=True)
class Bouncer:
    """Where it listens."""

    port: int

    def through(self, dsn: str) -> str:
        """The same database, through it."""
        return f"postgresql://anybody@127.0.0.1:{self.port}{urlsplit(dsn).path}"


@contextmanager
def bouncing(dsn: str, *, connections: int) -> Iterator[Bouncer]:
    """Run one over every database of the server of this URL, with so many server connections to
    each.
    """
    assert PROGRAM is not None
    bouncer, server = Bouncer(choose_port()), urlsplit(dsn)
    settings = [
        "[databases]",
        f"* = host={server.hostname} port={server.port} user={unquote(server.username or '')} "
        f"password={unquote(server.password or '')}",
        "[pgbouncer]",
        "listen_addr = 127.0.0.1",
        f"listen_port = {bouncer.port}",
        "unix_socket_dir =",
        "auth_type = any",
        "pool_mode = transaction",
        f"default_pool_size = {connections}",
        "max_client_conn = 200",
    ]
    with tempfile.TemporaryDirectory(prefix="hango-bouncer-") as folder:
        config = Path(folder) / "pgbouncer.ini"
        config.write_text("\n".join(settings) + "\n")
        user = None
        if os.geteuid() == 0:  # it refuses to run as root
            user = _NOBODY
            for path in (Path(folder), config):
                os.chown(path, user, user)
        process = subprocess.Popen(
            [PROGRAM, "-q", str(config)],
            stderr=subprocess.DEVNULL,
            user=user,
            group=user,
            extra_groups=[] if user else None,
        )
        try:
            wait_until(lambda: _answers(process, bouncer.port), what="pgbouncer listens")
            yield bouncer
        finally:
            process.kill()
            process.wait(10)


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    assert process.poll() is None, "pgbouncer did not start"
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
