"""Reading the body of a decide, byte by byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hango.common.v1 import types_pb2
from hango_gateway.mapping import bodies, decisions
from hango_policy import strict_json
from hypothesis import given
from hypothesis import strategies as st

NUMBERS = st.one_of(
    st.integers(),
    st.decimals(allow_nan=False, allow_infinity=False, places=3),
    st.sampled_from(["1e400", "1.10", "9007199254740993", "-0", "1E+2"]),
).map(str)
TEXTS = st.text().map(lambda text: json.dumps(text, ensure_ascii=len(text) % 2 == 0)) | st.just(
    '"\\ud800\\u0000"'
)
SPACES = st.sampled_from(["", " ", "\n", "\t \r\n"])


def _is_utf8(text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text)


@st.composite
def objects(draw: Any, depth: int = 2) -> str:
    """The text of a JSON object with white space anywhere and numbers of any precision."""
    space: str = draw(SPACES)
    values = NUMBERS | TEXTS | st.sampled_from(["null", "true", "[]", "{}"])
    if depth:
        values |= objects(depth - 1)
    items = [f'"k{i}"{space}:{space}{draw(values)}' for i in range(draw(st.integers(0, 3)))]
    return "{" + space + f",{space}".join(items) + space + "}"


@given(st.lists(objects().filter(_is_utf8), min_size=1, max_size=4), SPACES)
def test_arguments_and_answers_stay_as_they_stand(texts: list[str], space: str) -> None:
    items = [
        f'{{"tool_call_id":"c{i}",{space}"decision":"edit","args":{space}{text}{space},"value":{text}}}'
        for i, text in enumerate(texts)
    ]
    raw = f'{space}{{"decisions":{space}[{f",{space}".join(items)}]}}'.encode()
    reading = decisions.read(raw)
    assert reading.violations == []
    assert [d.args_json for d in reading.decisions] == [t.encode() for t in texts]
    assert [d.value_json for d in reading.decisions] == [t.encode() for t in texts]


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda t: t.encode("utf-8", "replace")))
def test_anything_else_is_a_fault_of_the_whole_body(raw: bytes) -> None:
    reading = decisions.read(raw)
    assert reading.decisions == []
    assert [v.pointer for v in reading.violations][:1] in ([""], ["/decisions"])


def test_names_pointers_and_kinds() -> None:
    raw = json.dumps(
        {
            "decisions": [
                {"approval_id": "a", "decision": "approve", "tool_name": "t"},
                {"decision": "reject", "message": "", "arguments_sha256": "x"},
                {"tool_call_id": None, "decision": "respond", "message": "42"},
                {"decision": "APPROVE"},
                {"approval_id": ["a"], "tool_call_id": 1, "decision": "edit", "args": "x"},
            ]
        }
    ).encode()
    reading = decisions.read(raw)
    assert [d.decision for d in reading.decisions] == [
        types_pb2.DECISION_KIND_APPROVE,
        types_pb2.DECISION_KIND_REJECT,
        types_pb2.DECISION_KIND_RESPOND,
        types_pb2.DECISION_KIND_UNSPECIFIED,
        types_pb2.DECISION_KIND_EDIT,
    ]
    assert reading.decisions[1].HasField("message")
    assert not reading.decisions[0].HasField("message")
    assert sorted(v.pointer for v in reading.violations) == [
        "/decisions/4/approval_id",
        "/decisions/4/args",
        "/decisions/4/tool_call_id",
    ]


@pytest.mark.parametrize("levels", [strict_json.MAX_DEPTH, strict_json.MAX_DEPTH + 1])
def test_arguments_may_be_as_deep_as_a_call_s(levels: int) -> None:
    args = '{"a":' * levels + "1" + "}" * levels
    reading = decisions.read(f'{{"decisions":[{{"decision":"edit","args":{args}}}]}}'.encode())
    assert bool(reading.violations) == (levels > strict_json.MAX_DEPTH)


def test_the_longest_body() -> None:
    frame = b'{"decisions":[{"decision":"reject","message":"%s"}]}'
    room = bodies.MAX_BYTES - len(frame) + 2
    assert decisions.read(frame % (b"x" * room)).violations == []
    assert [v.pointer for v in decisions.read(frame % (b"x" * (room + 1))).violations] == [""]
