"""`hango up` that cannot start says why, and leaves nothing behind."""

import socket
from pathlib import Path

from tests.e2e.up import STOPPED, Up, works_for
from tests.support.waiting import wait_until


def failed(up: Up) -> str:
    """What it said; it must end with 1 and leave no process."""
    process = up.launch()
    assert process.wait(30) == 1
    wait_until(lambda: not works_for(up.folder), what="the end of every process")
    assert not up.ready_file.exists()
    return (up.folder / "up.err").read_text()


def test_a_tool_server_file_that_is_not_there(folder: Path) -> None:
    up = Up(folder, options=["--tool-servers", str(folder / "none.toml")])
    assert f"{folder}/none.toml cannot be read" in failed(up)
    assert not (folder / "data").exists()


def test_a_service_that_does_not_start(folder: Path) -> None:
    said = failed(Up(folder, environment={"HANGO_LANES": "wrong"}))
    assert "the runner service did not start" in said
    assert "must be lanes and their slots" in said


def test_a_database_server_that_is_not_there(folder: Path) -> None:
    option = ["--postgres-dsn", "postgresql://postgres@127.0.0.1:1/postgres"]
    assert "cannot be prepared" in failed(Up(folder, options=option))


def test_an_address_that_is_taken(folder: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        option = ["--http", f"127.0.0.1:{other.getsockname()[1]}"]
        assert "choose another --http" in failed(Up(folder, options=option))


def test_an_end_in_the_middle_of_the_start(folder: Path) -> None:
    up = Up(folder)
    up.launch()
    wait_until((folder / "data" / "logs" / "approvals.log").exists, what="the services")
    assert up.stop() < STOPPED
    assert up.process is not None
    assert up.process.returncode == 0
    assert not up.ready_file.exists()
