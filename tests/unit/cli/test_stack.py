"""What the stack decides before it starts anything."""

import json
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hango_cli.stack import demo_tenants
from hango_cli.stack.errors import StackError
from hango_cli.stack.keep import Keep
from hango_cli.stack.plan import SERVICES, Options, make
from hango_cli.stack.up import ReadyFile, check_tool_servers

ADMIN_DSN = "postgresql://postgres:p@127.0.0.1:5432/postgres"
NATS_URL = "nats://somewhere"


@pytest.fixture
def keep(tmp_path: Path) -> Iterator[Keep]:
    found = Keep(tmp_path / "data")
    found.open()
    yield found
    found.close()


def test_ports_and_secrets_are_the_same_after_a_restart(tmp_path: Path) -> None:
    plans, credentials = [], []
    for _ in range(2):
        keep = Keep(tmp_path / "data")
        keep.open()
        plans.append(make(Options(tmp_path, http=("127.0.0.1", 0)), keep))
        credentials.append(demo_tenants.credentials(keep))
        keep.close()
    assert plans[0] == plans[1]
    assert credentials[0] == credentials[1]
    ports = [plans[0].http, *plans[0].grpc.values(), *plans[0].metrics.values()]
    assert len(set(ports)) == len(ports)


def test_what_is_kept_is_for_us_alone(keep: Keep) -> None:
    keep.secret("a", lambda: "s")
    keep.save()
    assert stat.S_IMODE((keep.path / "stack.json").stat().st_mode) == 0o600


def test_a_port_that_was_taken_meanwhile_is_given_up(keep: Keep) -> None:
    first = keep.port("a")
    with socket.socket() as other:
        other.bind(("127.0.0.1", first))
        other.listen()
        assert keep.port("a") != first


def test_one_stack_a_folder(keep: Keep) -> None:
    with pytest.raises(StackError, match="in use by another hango"):
        Keep(keep.path).open()


@pytest.mark.parametrize("text", ["", "{", "{}", "[]"])
def test_a_damaged_memory_is_not_replaced(tmp_path: Path, text: str) -> None:
    (tmp_path / "stack.json").write_text(text)
    with pytest.raises(StackError, match="damaged"):
        Keep(tmp_path).open()


def test_a_taken_http_port_is_told(keep: Keep) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        options = Options(keep.path, http=("127.0.0.1", other.getsockname()[1]))
        with pytest.raises(StackError, match="choose another --http"):
            make(options, keep)


def test_a_service_knows_its_own_database_and_no_other(keep: Keep) -> None:
    plan = make(Options(keep.path, http=("127.0.0.1", 0)), keep)
    inherited = {"HANGO_RUNNER_DSN": "stale", "HANGO_APPROVALS_DSN": "stale", "PATH": "/bin"}
    for service in SERVICES:
        found = plan.environment(service, inherited, admin_dsn=ADMIN_DSN, nats_url=NATS_URL)
        dsns = {name: value for name, value in found.items() if name.endswith("_DSN")}
        if service in plan.databases:
            login = plan.databases[service].service
            assert dsns == {
                f"HANGO_{service.upper()}_DSN": f"postgresql://{login.name}:{login.password}"
                f"@127.0.0.1:5432/hango_{service}"
            }
        else:
            assert dsns == {}
        assert found["PATH"] == "/bin"
        assert found["HANGO_INTERNAL_KEY"] == plan.internal_key
        assert not any(d.owner.password in found.values() for d in plan.databases.values())


def test_the_callers_variables_hold_but_for_what_the_stack_decides(keep: Keep) -> None:
    plan = make(Options(keep.path, http=("127.0.0.1", 0)), keep)

    def environment(inherited: dict[str, str]) -> dict[str, str]:
        return plan.environment("runner", inherited, admin_dsn=ADMIN_DSN, nats_url=NATS_URL)

    assert environment({})["HANGO_DRAIN"] == "8s"
    told = {"HANGO_DRAIN": "1s", "HANGO_APPROVAL_TTL": "5s", "HANGO_RUNNER_ADDR": "elsewhere:1"}
    found = environment(told)
    assert found["HANGO_DRAIN"] == "1s"
    assert found["HANGO_APPROVAL_TTL"] == "5s"
    assert found["HANGO_RUNNER_ADDR"] == plan.grpc["runner"]


def test_a_client_is_told_an_address_that_it_can_reach(keep: Keep) -> None:
    plan = make(Options(keep.path, http=("0.0.0.0", 0)), keep)
    assert plan.http.startswith("0.0.0.0:")
    assert plan.url.startswith("http://127.0.0.1:")


def test_the_ready_file_is_whole_private_and_gone_when_it_is_not_true(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    path.write_text("of an earlier run")
    ready = ReadyFile(path)
    assert not path.exists()
    for document in ({"pids": {"runner": 1}}, {"pids": {"runner": 2}}):
        ready.write(dict(document))
        assert json.loads(path.read_text()) == document
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["ready.json"]  # noqa: PTH208
    ready.remove()
    assert not path.exists()


def test_a_tool_server_file_is_checked_before_anything_starts(tmp_path: Path) -> None:
    file = tmp_path / "tools.toml"
    with pytest.raises(StackError, match="cannot be read"):
        check_tool_servers(file)
    file.write_text("[bank")
    with pytest.raises(StackError, match="not TOML"):
        check_tool_servers(file)
    file.write_bytes(b"\xff")
    with pytest.raises(StackError, match="not TOML"):
        check_tool_servers(file)
    file.write_text("[bank]")
    check_tool_servers(file)
    check_tool_servers(None)
