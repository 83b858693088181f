"""No digit of JSON is touched."""

import json
from pathlib import Path
from typing import Any

import pytest
from hango_cli.json_text import check, read_spec, reindent
from hypothesis import given
from hypothesis import strategies as st

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


def tokens(text: str) -> Any:
    """The value with every number as its text, and every pair of an object, in order."""
    return json.loads(text, parse_int=str, parse_float=str, object_pairs_hook=list)


@given(VALUES, st.booleans())
def test_indenting_changes_nothing_but_blanks(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert tokens(reindent(text)) == tokens(text)
    assert reindent(text) == json.dumps(value, ensure_ascii=ascii_only, indent=2)


def test_indenting_keeps_what_a_parser_would_lose() -> None:
    text = '{"n":1e400,"n":12345678901234567890.10,"s":"\\u0041\\/ {,}"}'
    assert reindent(text).replace("\n", "").replace("  ", "").replace(": ", ":") == text


@pytest.mark.parametrize("text", ["", "{", "{} {}", "NaN", "[-Infinity]", "{'a': 1}", "01"])
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        check(text)


def test_yaml_numbers_keep_their_digits(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("name: a\nbig: 12345678901234567890123\nlong: 1.10\nhuge: 1e400\nsmall: -0.5\n")
    assert read_spec(file) == (
        "a",
        b'{"name":"a","big":12345678901234567890123,"long":1.10,"huge":1e400,"small":-0.5}',
    )


def test_yaml_text_stays_text(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("name: no\non: [yes, 2024-01-01, 0x10, '5', .inf]\ntrue: ~\n")
    _, body = read_spec(file)
    assert json.loads(body) == {
        "name": "no",
        "on": ["yes", "2024-01-01", "0x10", "5", ".inf"],
        "true": None,
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: a\nname: b\n", "must not come twice"),
        ("name: a\nlimits: {a: 1, a: 2}\n", "must not come twice"),
        ("name: a\nn: 007\n", "as JSON has it"),
        ("name: [\n", "not YAML"),
        ("- name: a\n", "a mapping with a `name`"),
        ("name: 12\n", "a mapping with a `name`"),
        ("name: !!python/object:os.system x\n", "not YAML"),
    ],
)
def test_yaml_that_is_no_agent_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(text)
    with pytest.raises(ValueError, match=said):
        read_spec(file)


def test_json_is_sent_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "agent.json"
    file.write_text('{ "name": "a",  "n": 1.00 }\n')
    assert read_spec(file) == ("a", b'{ "name": "a",  "n": 1.00 }\n')
