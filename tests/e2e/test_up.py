"""`hango up`: one stack, through everything that can happen to it. The tests build on each other's
stack, not on each other's results.
"""

import json
import os
import signal
import stat
import subprocess
import sys
from typing import Any

import pytest

from tests.e2e.job import approve, await_state, paused, save_agents
from tests.e2e.up import STOPPED, Api, Up
from tests.support.waiting import wait_until

COMMAND = [sys.executable, "-m", "hango_cli", "up"]
PROCESSES = ("postgres", "nats", "approvals", "runner", "gateway", "sweeper")


@pytest.fixture
def ready(up: Up) -> dict[str, Any]:
    """The running stack's ready document, with the agent saved."""
    if up.process is not None and up.process.poll() is None:
        document = up.ready()
        assert document is not None
        return document
    document = up.start()
    save_agents(document)
    return document


def test_the_ready_file_tells_everything(up: Up, ready: dict[str, Any]) -> None:
    assert set(ready["pids"]) == set(PROCESSES)
    below = {process.pid for process in up.descendants()}
    assert set(ready["pids"].values()) <= below
    assert ready["tenant"] == "demo"
    users = {"owner", "admin", "member", "other-member", "b-owner", "b-member"}
    assert set(ready["credentials"]) == users
    assert all(key.startswith("hk_") for key in ready["credentials"].values())
    assert set(ready["grpc"]) == set(ready["postgres"]) == {"approvals", "runner"}
    assert set(ready["metrics"]) == {"approvals", "runner", "gateway", "sweeper"}
    assert stat.S_IMODE(up.ready_file.stat().st_mode) == 0o600
    printed = (up.folder / "up.out").read_text().splitlines()
    assert json.loads(printed[-1]) == ready
    assert any(ready["http"] in line for line in printed[:-1])


def test_no_secret_is_on_a_command_line(up: Up, ready: dict[str, Any]) -> None:
    lines = [" ".join(process.cmdline()) for process in up.descendants()]
    secrets = [*ready["credentials"].values(), *ready["postgres"].values(), ready["nats"]]
    assert not [line for line in lines for secret in secrets if secret in line]


def test_each_user_is_who_the_key_says(ready: dict[str, Any]) -> None:
    assert Api.of(ready, "b-owner").call("GET", "/v1/agents")["items"] == []
    agents = Api.of(ready, "admin").call("GET", "/v1/agents")["items"]
    assert {agent["name"] for agent in agents} == {"clerk", "slow-clerk"}
    assert Api.of(ready, "member").send("GET", "/v1/users").status_code == 403


def test_a_payment_waits_for_a_person_and_is_made_once(up: Up, ready: dict[str, Any]) -> None:
    run_id = paused(ready)
    assert [e for e in up.ledger if e["run_id"] == run_id] == []
    approve(ready, run_id)
    await_state(ready, run_id, "succeeded")
    assert [e["amount"] for e in up.ledger if e["run_id"] == run_id] == [250]


@pytest.mark.parametrize("name", PROCESSES)
def test_a_process_that_dies_is_started_again_and_the_run_ends_right(
    up: Up, ready: dict[str, Any], name: str
) -> None:
    run_id = paused(ready)
    now = up.kill_service(name)
    for unchanged in ("http", "grpc", "nats", "postgres", "credentials", "metrics"):
        assert now[unchanged] == ready[unchanged]
    assert {n for n in PROCESSES if now["pids"][n] != ready["pids"][n]} == {name}
    approve(now, run_id)
    await_state(now, run_id, "succeeded")
    assert len([e for e in up.ledger if e["run_id"] == run_id]) == 1


def test_a_second_stack_on_the_same_data_is_refused(up: Up, ready: dict[str, Any]) -> None:
    second = subprocess.run(
        [*COMMAND, "--data", str(up.folder / "data"), "--http", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert second.returncode == 1
    assert "in use by another hango" in second.stderr
    assert up.ready() == ready


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_end_leaves_no_process_and_a_restart_finds_everything(
    up: Up, ready: dict[str, Any], number: signal.Signals
) -> None:
    run_id = paused(ready)
    # An open stream must not hold it up.
    with (
        Api.of(ready, "admin").client() as client,
        client.stream("GET", f"/v1/runs/{run_id}/events") as stream,
    ):
        assert stream.status_code == 200
        took = up.stop(number)
    assert took < STOPPED
    assert up.process is not None
    assert up.process.returncode == (0 if number == signal.SIGTERM else -number)
    assert not up.ready_file.exists() or number == signal.SIGKILL
    up.ready_file.unlink(missing_ok=True)
    now = up.start()
    assert {**now, "pids": None} == {**ready, "pids": None}
    await_state(now, run_id, "awaiting_approval")
    approve(now, run_id)
    await_state(now, run_id, "succeeded")
    assert len([e for e in up.ledger if e["run_id"] == run_id]) == 1


def test_a_tool_that_hangs_does_not_hold_up_the_end_and_is_not_called_again(
    up: Up, ready: dict[str, Any]
) -> None:
    body = {"agent": "slow-clerk", "input": "Pay."}
    run_id = Api.of(ready, "member").call("POST", "/v1/runs", body)["id"]

    def payments() -> list[dict[str, Any]]:
        return [e for e in up.ledger if e["run_id"] == run_id]

    wait_until(payments, what="the payment")
    assert up.stop() < STOPPED
    now = up.start()
    await_state(now, run_id, "succeeded")
    assert len(payments()) == 1
    messages = Api.of(now, "member").call("GET", f"/v1/runs/{run_id}/messages")["items"]
    assert [m["is_error"] for m in messages if m["role"] == "tool"] == [True]


def test_ctrl_c_reaches_none_of_the_children(up: Up, ready: dict[str, Any]) -> None:
    assert up.process is not None
    ours = os.getpgid(up.process.pid)
    assert all(os.getpgid(pid) != ours for pid in ready["pids"].values())
