"""One canonical form: what the matcher looks at is what the tool writes."""

import posixpath
import unicodedata

import pytest
from hango_policy import paths
from hango_policy.errors import PathRefused
from hypothesis import given
from hypothesis import strategies as st

ANY_PATH = st.text() | st.lists(
    st.sampled_from(["", ".", "..", "memories", "Memories", "a", "b c", "é", "e\u0301", "ﬁ", "%2e"])
).map("/".join)
PLAIN_PATH = st.lists(st.sampled_from(["", ".", "..", "memories", "a", "b"]), min_size=1).map(
    "/".join
)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/memories/x", "/memories/x"),
        ("//memories/x", "/memories/x"),
        ("///memories///x", "/memories/x"),
        ("/a/../memories/x", "/memories/x"),
        ("memories/x", "/memories/x"),
        ("./memories/./x/", "/memories/x"),
        ("/memories", "/memories"),
        ("/", "/"),
        (".", "/"),
        ("/...", "/..."),
        ("/e\u0301", "/é"),
        ("/100%", "/100%"),
        ("/ a ", "/ a "),
    ],
)
def test_canonical(path: str, expected: str) -> None:
    assert paths.canonical(path) == expected


@pytest.mark.parametrize(
    "path",
    [
        "",
        "..",
        "/..",
        "/a/../../b",
        "/a\x00b",
        "/a\nb",
        "/a\\b",
        "/%6demories/x",
        "/%2e%2e/x",
        "/mem\u200bories/x",
        "/mem\u00adories/x",
        "/\u202ex",
        "/a\u2028b",
        "/\ud800",
        "/\uff4demories/x",
        "/memories\uff0fx",
        "/a\u00a0b",
        "/\u2025/x",
        "/" + "a" * paths.MAX_PATH_CHARS,
    ],
)
def test_refused(path: str) -> None:
    with pytest.raises(PathRefused):
        paths.canonical(path)


@given(ANY_PATH)
def test_canonical_is_idempotent_absolute_and_clean(path: str) -> None:
    try:
        result = paths.canonical(path)
    except PathRefused:
        return
    assert paths.canonical(result) == result
    assert result.startswith("/")
    assert unicodedata.is_normalized("NFC", result)
    segments = result[1:].split("/")
    assert result == "/" or not {"", ".", ".."} & set(segments)


@given(PLAIN_PATH)
def test_canonical_agrees_with_posix(path: str) -> None:
    """POSIX stays at the root where we refuse to leave it, and keeps two leading slashes."""
    try:
        result = paths.canonical(path)
    except PathRefused:
        return
    assert result == posixpath.normpath("/" + path.lstrip("/"))


@pytest.mark.parametrize(
    ("path", "folder", "exactly", "in_any_case"),
    [
        ("/memories/x", "/memories/", True, True),
        ("/memories", "/memories/", True, True),
        ("memories/a/b", "/memories", True, True),
        ("/memoriesx", "/memories/", False, False),
        ("/memories/../x", "/memories/", False, False),
        ("/x/../memories/y", "/memories/", True, True),
        ("/Memories/x", "/memories/", False, True),
        ("/MEMORIES", "/memories/", False, True),
        ("/STRASSE/x", "/straße", False, True),
        ("/a", "/", True, True),
        ("/", "/memories", False, False),
    ],
)
def test_is_under(path: str, folder: str, exactly: bool, in_any_case: bool) -> None:
    assert paths.is_under(path, folder) is exactly
    assert paths.is_under_in_any_case(path, folder) is in_any_case


def test_is_under_refuses_either() -> None:
    for path, folder in (("/a\\b", "/a"), ("/a", "/../a")):
        with pytest.raises(PathRefused):
            paths.is_under(path, folder)
