"""The embedded PostgreSQL: locked, durable over restarts, and careful with its folder."""

import os
import socket
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from hango_cli.embedded import EmbeddedPostgres, EmbeddedServerError
from hango_cli.embedded.account import Account


@contextmanager
def running(postgres: EmbeddedPostgres) -> Iterator[EmbeddedPostgres]:
    postgres.start()
    try:
        yield postgres
    finally:
        postgres.stop()


async def run(dsn: str, *statements: str) -> list[Any]:
    """Execute the statements in one session; the rows of the last."""
    connection = await asyncpg.connect(dsn)
    try:
        for statement in statements[:-1]:
            await connection.execute(statement)
        return list(await connection.fetch(statements[-1]))
    finally:
        await connection.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(scope="module")
def shared() -> Iterator[EmbeddedPostgres]:
    """One server for the tests that only look at it."""
    with (
        tempfile.TemporaryDirectory(prefix="hango-embedded-") as folder,
        running(EmbeddedPostgres(Path(folder) / "postgres", settings={"jit": "on"})) as postgres,
    ):
        yield postgres


async def test_the_right_password_is_let_in(shared: EmbeddedPostgres) -> None:
    assert shared.alive()
    [row] = await run(shared.superuser_dsn(), "SELECT current_user AS who")
    assert row["who"] == "postgres"


@pytest.mark.parametrize("password", ["", "wrong"])
async def test_no_other_password_is(shared: EmbeddedPostgres, password: str) -> None:
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(
            host="127.0.0.1", port=shared.port, user="postgres", password=password
        )


async def test_no_rule_trusts_anyone_and_there_is_no_socket(shared: EmbeddedPostgres) -> None:
    rules = await run(shared.superuser_dsn(), "SELECT auth_method FROM pg_hba_file_rules")
    assert {rule["auth_method"] for rule in rules} == {"scram-sha-256"}
    [row] = await run(
        shared.superuser_dsn(),
        "SELECT current_setting('unix_socket_directories') AS sockets,"
        " current_setting('listen_addresses') AS addresses",
    )
    assert (row["sockets"], row["addresses"]) == ("", "127.0.0.1")


async def test_it_is_durable_and_takes_settings(shared: EmbeddedPostgres) -> None:
    [row] = await run(
        shared.superuser_dsn(),
        "SELECT current_setting('fsync') AS fsync, current_setting('jit') AS jit",
    )
    assert (row["fsync"], row["jit"]) == ("on", "on")


async def test_the_log_quotes_no_rows(shared: EmbeddedPostgres) -> None:
    with pytest.raises(asyncpg.NotNullViolationError):
        await run(
            shared.superuser_dsn(),
            "CREATE TEMP TABLE t (secret text, n int NOT NULL)",
            "INSERT INTO t SELECT 'tell' || '-nobody', NULL",
        )
    logged = shared.log.read_text()
    assert "violates not-null constraint" in logged
    assert "tell-nobody" not in logged


def test_its_files_are_closed_and_folders_above_are_left_alone(data: Path) -> None:
    above = {folder: mode(folder) for folder in data.parents} | {data: mode(data)}
    with running(EmbeddedPostgres(data / "deep" / "postgres", durable=False)) as postgres:
        folder = data / "deep" / "postgres"
        assert mode(folder / "cluster") == 0o700
        files = [path for path in folder.iterdir() if path.is_file()]
        assert {path.name: mode(path) for path in files} == {
            "lock": 0o600,
            "server.json": 0o600,
            "postgres.log": 0o600,
        }
        assert postgres.alive()
    assert {folder: mode(folder) for folder in above} == above


async def test_a_restart_keeps_data_port_and_password(data: Path) -> None:
    with running(EmbeddedPostgres(data / "postgres")) as first:
        dsn = first.superuser_dsn()
        await run(dsn, "CREATE TABLE kept AS SELECT 42 AS n", "SELECT")
    assert not first.alive()
    with running(EmbeddedPostgres(data / "postgres")) as second:
        assert second.superuser_dsn() == dsn
        [row] = await run(dsn, "SELECT n FROM kept")
        assert row["n"] == 42


async def test_it_takes_another_port_when_its_own_is_gone(data: Path) -> None:
    postgres = EmbeddedPostgres(data / "postgres", durable=False)
    with running(postgres):
        port = postgres.port
    with closing(socket.create_server(("127.0.0.1", port))), running(postgres):
        assert postgres.port != port
        assert await run(postgres.superuser_dsn(), "SELECT 1")


def test_a_wanted_port_that_is_taken_is_an_error_naming_the_log(data: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        postgres = EmbeddedPostgres(data / "postgres", durable=False, port=port)
        with pytest.raises(EmbeddedServerError, match=rf"port {port}.*postgres\.log(?s:.*)in use"):
            postgres.start()
    assert not postgres.alive()


def test_one_folder_serves_one_owner_at_a_time(data: Path) -> None:
    second = EmbeddedPostgres(data / "postgres", durable=False)
    with running(EmbeddedPostgres(data / "postgres", durable=False)) as first:
        with pytest.raises(EmbeddedServerError, match="in use by another"):
            second.start()
        assert first.alive()


def test_a_stale_pid_that_is_now_another_program_does_not_hinder(data: Path) -> None:
    postgres = EmbeddedPostgres(data / "postgres", durable=False)
    with running(postgres):
        pid_file = data / "postgres" / "cluster" / "postmaster.pid"
        left_behind = pid_file.read_text()
    owner = (data / "postgres" / "cluster").stat().st_uid
    user = owner if os.geteuid() == 0 else None
    with subprocess.Popen(["sleep", "60"], user=user) as other:
        try:
            pid_file.write_text(left_behind.replace(left_behind.split()[0], str(other.pid), 1))
            with running(postgres):
                assert postgres.alive()
        finally:
            other.kill()


def test_data_without_its_password_is_refused_with_advice(data: Path) -> None:
    postgres = EmbeddedPostgres(data / "postgres", durable=False)
    with running(postgres):
        pass
    (data / "postgres" / "server.json").unlink()
    with pytest.raises(EmbeddedServerError, match=r"password in server\.json"):
        EmbeddedPostgres(data / "postgres", durable=False).start()


def test_other_threads_may_not_start_it(data: Path) -> None:
    raised: list[EmbeddedServerError] = []

    def start() -> None:
        try:
            EmbeddedPostgres(data / "postgres", durable=False).start()
        except EmbeddedServerError as error:
            raised.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert "main thread" in str(raised[0])


def test_an_account_reaches_what_every_folder_above_lets_it(data: Path) -> None:
    nobody_here = Account(uid=12345, gid=12345)
    (data / "open").mkdir()
    assert not nobody_here.can_reach(data / "open" / "file")
    data.chmod(0o711)
    assert nobody_here.can_reach(data / "open" / "file")
