"""The main job: a payment that waits for a person."""

from typing import Any

from tests.e2e.up import Api
from tests.support.waiting import wait_until

AGENT = {
    "name": "clerk",
    "instructions": "You pay.",
    "tools": ["bank__*"],
    "interrupt_on": {"bank__pay": {"when": {"arg": "amount", "gt": 100}}},
    "model": {
        "provider": "scripted",
        "turns": [
            {
                "text": "I pay.",
                "tool_calls": [
                    {
                        "id": "c1",
                        "name": "bank__pay",
                        "arguments": {"account": "ops", "amount": 250},
                    }
                ],
            },
            {"text": "Paid."},
        ],
    },
}


SLOW = {
    "name": "slow-clerk",
    "instructions": "You pay, and nobody minds.",
    "tools": ["slow__*"],
    "model": {
        "provider": "scripted",
        "turns": [
            {
                "text": "I pay.",
                "tool_calls": [
                    {"id": "c1", "name": "slow__pay", "arguments": {"account": "ops", "amount": 1}}
                ],
            },
            {"text": "Paid?"},
        ],
    },
}


def save_agents(ready: dict[str, Any]) -> None:
    """Save the agents, as the admin."""
    for agent in (AGENT, SLOW):
        Api.of(ready, "admin").call("PUT", f"/v1/agents/{agent['name']}", agent)


def paused(ready: dict[str, Any]) -> str:
    """The id of a run of the member that waits for a person."""
    run = Api.of(ready, "member").patiently(
        "POST", "/v1/runs", {"agent": "clerk", "input": "Pay."}, wait="20s"
    )
    await_state(ready, run["id"], "awaiting_approval")
    return str(run["id"])


def approve(ready: dict[str, Any], run_id: str) -> None:
    """Decide it, as the admin."""
    body = {"decisions": [{"tool_call_id": "c1", "decision": "approve"}]}
    Api.of(ready, "admin").patiently("POST", f"/v1/runs/{run_id}/approvals", body)


def await_state(ready: dict[str, Any], run_id: str, state: str) -> Any:
    """The run, once it is in this state."""
    api = Api.of(ready, "owner")

    def there() -> Any:
        run = api.patiently("GET", f"/v1/runs/{run_id}")
        return run if run["state"] == state else None

    return wait_until(there, timeout=60, what=f"{run_id} {state}")
