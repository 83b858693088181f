"""A reason is the same in the proto, the classes, the reference page and the gateway's pages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from fastapi import FastAPI
from hango.common.v1 import errors_pb2
from hango_gateway.http import problems
from hango_platform.errors import BY_REASON

from tools import reference

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hango_platform.errors import HangoError

PAGE = Path(__file__).parents[2] / "docs/reference/errors.md"
PREFIX = "ERROR_REASON_"


def rows() -> dict[str, list[str]]:
    """The page's cells by reason."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {row[0].strip("`"): row[1:] for row in cells}


@pytest.fixture
async def gateway() -> AsyncIterator[httpx.AsyncClient]:
    """The gateway's problem pages, and nothing else of it."""
    app = FastAPI()
    app.include_router(problems.router)
    problems.install(app, list(problems.router.routes))
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        yield client


def test_the_proto_the_classes_and_the_page_name_the_same_reasons() -> None:
    names = [value.name for value in errors_pb2.DESCRIPTOR.enum_types_by_name["ErrorReason"].values]
    in_proto = {name.removeprefix(PREFIX) for name in names} - {"UNSPECIFIED"}
    assert in_proto == set(BY_REASON) == set(rows())


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == reference.errors()


@pytest.mark.parametrize("kind", BY_REASON.values(), ids=lambda kind: kind.reason)
async def test_the_gateway_says_what_the_page_says(
    gateway: httpx.AsyncClient, kind: type[HangoError]
) -> None:
    status, _, title, *_ = rows()[kind.reason]
    answer = await gateway.get(f"/problems/{kind.slug()}")
    assert answer.status_code == 200
    for said in (kind.reason, status, title):
        assert said in answer.text.replace("&#x27;", "'")


async def test_the_gateway_has_no_page_for_what_is_no_reason(gateway: httpx.AsyncClient) -> None:
    assert (await gateway.get("/problems/no-such-reason")).status_code == 404


def test_members_are_those_that_the_code_gives() -> None:
    """The scan finds what the contract promises; a class that is renamed must not empty it."""
    found = {reason: row[-1] for reason, row in rows().items()}
    assert "`remaining`" in found["APPROVALS_INCOMPLETE"]
    assert "`state`" in found["APPROVALS_CLOSED"]
    assert "`allowed`" in found["DECISION_NOT_ALLOWED"]
    assert "`errors`" in found["INVALID_REQUEST"]
