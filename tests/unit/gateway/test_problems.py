"""Every reason has a document and a page, and the proto, the classes and the pages agree."""

from __future__ import annotations

import json

import pytest
from hango.common.v1 import errors_pb2
from hango_gateway.http import problems
from hango_platform.errors import BY_REASON, ApprovalsClosed, HangoError, NotFound, Violation

REASONS = {
    name.removeprefix("ERROR_REASON_")
    for name in errors_pb2.ErrorReason.keys()  # noqa: SIM118 - an enum, not a dict
} - {"UNSPECIFIED"}


def test_reasons_agree() -> None:
    assert set(BY_REASON) == REASONS


@pytest.mark.parametrize("cls", BY_REASON.values(), ids=lambda cls: cls.reason)
async def test_its_page(cls: type[HangoError]) -> None:
    page = await problems.about(cls.slug())
    assert cls.title.encode() in bytes(page.body)
    assert str(cls.status).encode() in bytes(page.body)


async def test_no_page_for_what_is_no_reason() -> None:
    with pytest.raises(NotFound):
        await problems.about("INTERNAL")


def test_members_cannot_take_the_place_of_others() -> None:
    error = ApprovalsClosed(violations=[Violation("/a", "b")], state="decided", status=200, type=1)
    document = json.loads(bytes(problems.problem(error).body))
    assert document == {
        "type": "/problems/approvals-closed",
        "title": error.title,
        "status": 409,
        "detail": error.title,
        "reason": "APPROVALS_CLOSED",
        "state": "decided",
        "errors": [{"pointer": "/a", "message": "b"}],
    }
