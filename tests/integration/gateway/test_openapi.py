"""The description is valid, complete, and true for requests nobody thought of."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import CHECKS

from tests.support.fake_owners import RUN

if TYPE_CHECKING:
    from tests.support.fake_owners import Edge

STREAMS = ("/v1/events", "/v1/runs/{run_id}/events")
HELD = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)
EXAMPLES = 4


async def document_of(edge: Edge) -> dict[str, Any]:
    found: dict[str, Any] = (await edge.http.get("/openapi.json")).json()
    return found


async def test_it_is_openapi_3_1(edge: Edge) -> None:
    document = await document_of(edge)
    assert document["openapi"].startswith("3.1.")
    schemathesis.openapi.from_dict(document).validate()
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"


async def test_every_operation_says_what_it_takes_and_answers(edge: Edge) -> None:
    document = await document_of(edge)
    names = set()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            at = f"{method} {path}"
            names.add(operation["operationId"])
            assert operation["description"], at
            good = [c for c in operation["responses"] if c.startswith("2")]
            assert good, at
            for code in good:
                content = operation["responses"][code].get("content", {})
                assert bool(content) == (code != "204"), at
                for described in content.values():
                    assert described["schema"], at
            if path.startswith("/v1"):
                assert operation["security"] == [{"bearer": []}], at
                problem = operation["responses"]["401"]["content"]["application/problem+json"]
                assert problem["schema"]["$ref"].endswith("/Problem"), at
                reads = method in ("put", "patch") or (method == "post" and "cancel" not in path)
                assert ("requestBody" in operation) == reads, at
    assert len(names) == sum(map(len, document["paths"].values()))
    keyed = {
        path
        for path, operations in document["paths"].items()
        for operation in operations.values()
        if any(p["name"] == "Idempotency-Key" for p in operation.get("parameters", ()))
    }
    assert keyed == {
        "/v1/runs",
        "/v1/runs/{run_id}/cancel",
        "/v1/runs/{run_id}/fork",
        "/v1/runs/{run_id}/approvals",
    }


async def test_every_reference_leads_somewhere(edge: Edge) -> None:
    document = await document_of(edge)
    schemas = document["components"]["schemas"]

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if isinstance(reference := node.get("$ref"), str):
                assert reference.removeprefix("#/components/schemas/") in schemas
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(document)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_requests_nobody_thought_of(edge: Edge) -> None:
    document = await document_of(edge)
    schema = schemathesis.openapi.from_dict(document)
    results: list[Any] = list(schema.get_all_operations())
    operations = [result.ok() for result in results]
    asked = [op for op in operations if op.path not in STREAMS]
    assert len(asked) > 25
    checks = [check for check in CHECKS.get_all() if check.__name__ in HELD]
    assert len(checks) == len(HELD)
    for operation in asked:
        await asyncio.to_thread(_try, operation, edge, checks)


def _try(operation: Any, edge: Edge, checks: list[Any]) -> None:
    """In a thread, since the server is in this one's loop."""

    @given(case=operation.as_strategy())
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def attempt(case: Any) -> None:
        if "run_id" in (case.path_parameters or {}):
            case.path_parameters["run_id"] = RUN
        case.call_and_validate(
            base_url=edge.url, headers={"Authorization": "Bearer hk_owner"}, checks=checks
        )

    attempt()
