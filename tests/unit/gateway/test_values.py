"""Single values on their way to JSON."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hango.approvals.v1 import approvals_pb2
from hango.common.v1 import access_pb2, types_pb2
from hango_gateway.mapping import models, values

ENUMS: list[tuple[Any, Any]] = [
    (types_pb2.RunState, models.RunState),
    (types_pb2.ApprovalState, models.ApprovalState),
    (types_pb2.DecisionKind, models.Decision),
    (access_pb2.Role, models.Role),
    (types_pb2.ApprovalKind, models.Approval.model_fields["kind"].annotation),
    (types_pb2.ExecutionState, models.Execution.model_fields["state"].annotation),
]


@pytest.mark.parametrize(("enum", "words"), ENUMS, ids=lambda x: getattr(x, "DESCRIPTOR", x))
def test_the_words_are_those_of_the_description(enum: Any, words: Any) -> None:
    numbers = [n for n in enum.values() if n]
    found = [values.word(enum, n) for n in numbers]
    assert set(found) == set(words.__args__)
    assert [values.number(enum, word) for word in found] == numbers
    assert values.word(enum, 0) is None
    assert values.number(enum, None) == 0


def test_times_are_utc() -> None:
    message = approvals_pb2.Approval(created_at=Timestamp(seconds=1, nanos=500_000_000))
    assert values.time(message, "created_at") == "1970-01-01T00:00:01.500Z"
    assert values.time(message, "expires_at") is None


@pytest.mark.parametrize("text", [b"1e400", b"9007199254740993", b' {"a" : 1.10}', b'"\\ud800"'])
def test_json_stays_as_it_is(text: bytes) -> None:
    assert orjson.dumps(values.raw_if_json(text)) == text
    assert orjson.dumps(values.raw(text)) == text


@pytest.mark.parametrize("text", [b"", b"{", b'{"a":1,"a":1}', b"NaN", b"\xff", b'"\xed\xa0\x80"'])
def test_what_is_no_json_is_null(text: bytes) -> None:
    assert values.raw_if_json(text) is None


@pytest.mark.parametrize(
    ("exact", "shown"),
    [
        (b"plain", "plain"),
        (b'a"\x00\n', 'a"\x00\n'),
        ("\u202e\u200b".encode(), "\u202e\u200b"),
        (b"\xed\xa0\x80", "\ud800"),
        (b"\xff", "\ufffd"),
    ],
)
def test_text_of_any_bytes(exact: bytes, shown: str) -> None:
    assert json.loads(orjson.dumps(values.text(exact))) == shown
