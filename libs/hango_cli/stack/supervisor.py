"""Starts the servers and the services, starts them again when they die, and stops them in order."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from hango_platform.clock import monotonic
from hango_platform.errors import HangoError

from hango_cli.embedded import EmbeddedNats, EmbeddedPostgres, EmbeddedServerError
from hango_cli.postgres import databases
from hango_cli.provisioning import provision
from hango_cli.settings import inherited
from hango_cli.stack import demo_tenants
from hango_cli.stack.errors import StackError
from hango_cli.stack.health import await_healthy
from hango_cli.stack.keep import Keep
from hango_cli.stack.plan import SERVICES, Options, Plan, make
from hango_cli.stack.process import ServiceProcess, ended

_BACKOFF = (0.2, 0.5, 1.0, 2.0, 5.0)
_SETTLED = 10.0  # seconds after which a process that dies is not one that cannot start
# Services have 8 s to drain (HANGO_DRAIN); all is over in 10 s.
_EDGE_GRACE = 8.8
_OWNERS_GRACE = 9.2


class Child(Protocol):
    """A process to be kept alive."""

    @property
    def pid(self) -> int:
        """The pid of the last process."""

    def alive(self) -> bool:
        """Whether it runs."""

    async def start(self) -> None:
        """Start it; returns when it is ready. Raises StackError."""


class _Server:
    """An embedded server as a child. Its start blocks, for a second at most as a rule."""

    def __init__(self, server: EmbeddedPostgres | EmbeddedNats) -> None:
        self._server = server
        self.alive = server.alive

    @property
    def pid(self) -> int:
        return self._server.pid

    async def start(self) -> None:
        try:
            self._server.start()
        except EmbeddedServerError as error:
            raise StackError(str(error)) from None


class _Service(ServiceProcess):
    """A service that is ready only when its health check says so."""

    def __init__(self, name: str, plan: Plan, environment: Mapping[str, str], log: Path) -> None:
        super().__init__(name, environment, log)
        self._plan = plan

    async def start(self) -> None:
        await super().start()
        await await_healthy(self.name, self._plan)


class Stack:
    """All of it. `on_change` is called with nothing to say but that a pid is another one now;
    `tell` gets lines for a person.
    """

    def __init__(
        self, options: Options, *, tell: Callable[[str], None], on_change: Callable[[], None]
    ) -> None:
        self._options = options
        self._tell = tell
        self._on_change = on_change
        self._keep = Keep(options.data)
        self._postgres: EmbeddedPostgres | None = None
        self._nats: EmbeddedNats | None = None
        self._services: dict[str, _Service] = {}
        self._children: dict[str, Child] = {}
        self._keepers: set[asyncio.Task[None]] = set()
        self.credentials: dict[str, str] = {}
        self.plan: Plan
        self.reader_url: str
        "The NATS URL for the operator; may only read, where the server is ours."
        self._admin_dsn: str
        self._nats_url: str

    async def start(self) -> None:
        """Start everything; returns when all of it is ready. Raises StackError."""
        self._keep.open()
        self.plan = make(self._options, self._keep)
        await self._start_servers()
        await databases.prepare(self._admin_dsn, list(self.plan.databases.values()))
        await self._start_services()
        for name, child in self._children.items():
            task = asyncio.create_task(self._keep_alive(name, child), name=f"keep {name}")
            self._keepers.add(task)

    async def stop(self) -> None:
        """Stop everything within 10 seconds: who calls before who is called."""
        begun = monotonic()
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await self._stop_services(("gateway", "sweeper", "runner"), begun + _EDGE_GRACE)
        await self._stop_services(("approvals",), begun + _OWNERS_GRACE)
        for server in (self._nats, self._postgres):
            if server is not None:
                server.stop()
        self._keep.close()

    @property
    def pids(self) -> dict[str, int]:
        """The pid of each process that is ours."""
        return {name: child.pid for name, child in self._children.items()}

    @property
    def data(self) -> Path:
        """The data folder."""
        return self._keep.path

    def owner_dsns(self) -> dict[str, str]:
        """The database owners' URLs, for the operator."""
        return {name: d.owner_dsn(self._admin_dsn) for name, d in self.plan.databases.items()}

    async def _start_servers(self) -> None:
        durable = self._options.durable
        if self._options.postgres_dsn:
            self._admin_dsn = self._options.postgres_dsn
        else:
            self._postgres = EmbeddedPostgres(self.data / "postgres", durable=durable)
            await self._start_server("postgres", self._postgres)
            self._admin_dsn = self._postgres.superuser_dsn()
        if self._options.nats_url:
            self._nats_url = self.reader_url = self._options.nats_url
        else:
            self._nats = EmbeddedNats(self.data / "nats", durable=durable)
            await self._start_server("nats", self._nats)
            self._nats_url, self.reader_url = self._nats.url, self._nats.reader_url

    async def _start_server(self, name: str, server: EmbeddedPostgres | EmbeddedNats) -> None:
        child = self._children[name] = _Server(server)
        await child.start()

    async def _start_services(self) -> None:
        logs = self.data / "logs"
        logs.mkdir(exist_ok=True, mode=0o700)
        for name in SERVICES:
            environment = self.plan.environment(
                name, inherited(), admin_dsn=self._admin_dsn, nats_url=self._nats_url
            )
            service = _Service(name, self.plan, environment, logs / f"{name}.log")
            self._children[name] = self._services[name] = service
        await asyncio.gather(*(service.start() for service in self._services.values()))
        if self._options.demo:
            await self._seed()

    async def _seed(self) -> None:
        self.credentials = demo_tenants.credentials(self._keep)
        for tenant in demo_tenants.USERS:
            users = demo_tenants.users(tenant, self.credentials)
            try:
                await provision(self.plan.grpc["approvals"], self.plan.internal_key, tenant, users)
            except HangoError as error:
                message = f"the demo tenants cannot be made: {error.detail}"
                raise StackError(message) from error

    async def _keep_alive(self, name: str, child: Child) -> None:
        failures = 0
        while True:
            begun = monotonic()
            await ended(child.alive)
            if monotonic() - begun > _SETTLED:
                failures = 0
            pause = _BACKOFF[min(failures, len(_BACKOFF) - 1)]
            failures += 1
            self._tell(f"{name} ended unexpectedly; starting it again in {pause:g} s")
            await asyncio.sleep(pause)
            try:
                await child.start()
            except StackError as error:
                self._tell(str(error))
            else:
                self._tell(f"{name} is up again, as process {child.pid}")
            self._on_change()

    async def _stop_services(self, names: Sequence[str], deadline: float) -> None:
        services = [self._services[name] for name in names if name in self._services]
        for service in services:
            service.terminate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, deadline - monotonic())):
                await asyncio.gather(*(ended(service.alive) for service in services))
        for service in services:
            if service.alive():
                self._tell(f"{service.name} did not stop in time")
                service.kill()
