"""The command against a stack on servers that somebody else runs."""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hango_cli.main import main

from tests.e2e.conftest import fresh_folder
from tests.e2e.job import AGENT
from tests.e2e.up import Up
from tests.support.backend import NatsServer, PostgresServer

Hango = Callable[..., list[Any]]


@pytest.fixture(scope="module")
def external(postgres_server: PostgresServer, nats_server: NatsServer) -> Iterator[Up]:
    """A stack on the test session's PostgreSQL and NATS."""
    with fresh_folder() as folder:
        urls = ["--postgres-dsn", postgres_server.admin_dsn, "--nats-url", nats_server.url]
        up = Up(folder, options=urls)
        up.start()
        yield up
        up.close()


@pytest.fixture
def hango(
    external: Up, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Hango:
    """Run the command as this user; each line that it said, as JSON."""
    ready = external.ready()
    assert ready is not None
    monkeypatch.setenv("HANGO_URL", ready["http"])

    def run(user: str, *arguments: str, code: int = 0) -> list[Any]:
        monkeypatch.setenv("HANGO_API_KEY", ready["credentials"][user])
        monkeypatch.setattr(sys, "argv", ["hango", *arguments, "--json"])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert (ended.value.code or 0) == code, said.err
        return [json.loads(line) for line in said.out.splitlines() if line]

    return run


def test_servers_of_somebody_else_are_used_and_left_alone(
    external: Up, nats_server: NatsServer
) -> None:
    ready = external.ready()
    assert ready is not None
    assert set(ready["pids"]) == {"approvals", "runner", "gateway", "sweeper"}
    assert ready["nats"] == nats_server.url


def test_the_main_job(external: Up, hango: Hango) -> None:
    file = external.folder / "clerk.json"
    file.write_text(json.dumps(AGENT))
    hango("member", "agents", "apply", str(file), code=1)
    [agent] = hango("admin", "agents", "apply", str(file))
    [run] = hango("member", "runs", "start", agent["name"], "Pay.", "--wait", "20s")
    assert run["state"] == "awaiting_approval"
    [page] = hango("admin", "approvals", "list")
    assert [approval["run_id"] for approval in page["items"]] == [run["id"]]
    decide = ("approvals", "decide", run["id"], "--all", "approve")
    hango("member", *decide, code=1)
    [decided] = hango("admin", *decide)
    assert [approval["decision"] for approval in decided["approvals"]] == ["approve"]
    events = hango("member", "runs", "watch", run["id"])
    assert [int(e["id"]) for e in events if e["id"]] == list(range(1, len(events) + 1))
    assert events[-1]["event"] == "run.finished"
    [page] = hango("admin", "audit", "list", "--run", run["id"])
    assert "approval.decide" in {row["action"] for row in page["items"]}
    for _ in range(2):
        [result] = hango("admin", "audit", "verify", "--anchor", str(external.folder / "anchor"))
        assert result["ok"] is True


def test_the_directory(hango: Hango) -> None:
    [user] = hango("owner", "users", "create", "Ann", "--role", "admin")
    [key] = hango("owner", "keys", "create", user["id"], "laptop")
    assert key["secret"].startswith("hk_")
    [page] = hango("admin", "users", "list")
    assert user["id"] in {found["id"] for found in page["items"]}
    [user] = hango("owner", "users", "update", user["id"], "--disable")
    assert user["disabled"] is True
    hango("owner", "keys", "revoke", key["id"])
    for value in ("true", "false"):
        [tenant] = hango("owner", "tenants", "set", "demo", f"require_second_party={value}")
        assert tenant["require_second_party"] is (value == "true")
    hango("admin", "tenants", "set", "demo", "require_second_party=true", code=1)


def test_a_new_tenant(external: Up, hango: Hango) -> None:
    ready = external.ready()
    assert ready is not None
    kept = json.loads((external.folder / "data" / "stack.json").read_text())
    key, addr = kept["secrets"]["internal key"], ready["grpc"]["approvals"]

    def create(key: str, addr: str, code: int = 0) -> list[Any]:
        options = ("--internal-key", key, "--approvals-addr", addr)
        return hango("owner", "tenants", "create", "acme", *options, code=code)

    [made] = create(key, addr)
    [page] = hango("owner", "runs", "list", "--api-key", made["api_key"])
    assert page["items"] == []
    create("wrong" * 8, addr, code=1)
    create(key, "127.0.0.1:1", code=3)
