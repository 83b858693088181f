"""The built-ins over files, on files in memory."""

from typing import Any

import pytest
from hango_policy.schemas import compile_schema
from hango_policy.when import evaluate, parse_when
from hango_runner.agent.tools import Effect, ToolResult
from hango_runner.tools.files import FILE_TOOLS, MAX_FILE_BYTES, MAX_MATCHES
from hango_runner.tools.text import MAX_RESULT_BYTES

from tests.support.files import DictFiles

TOOLS = {tool.spec.name: tool for tool in FILE_TOOLS}
GATE = parse_when(
    {"any": [{"arg": "path", "under": "/memories/"}, {"arg": "path", "under": "/skills/"}]}
)


async def use(files: DictFiles, name: str, **arguments: Any) -> ToolResult:
    """Call a tool as the executor does: only with arguments that its schema takes."""
    tool = TOOLS[name]
    assert compile_schema(tool.spec.parameters).violations(arguments) == []
    return await tool.run(arguments, files)


async def text(files: DictFiles, name: str, **arguments: Any) -> str:
    result = await use(files, name, **arguments)
    assert not result.is_error, result.text
    return result.text


async def fault(files: DictFiles, name: str, **arguments: Any) -> str:
    before = dict(files.contents)
    result = await use(files, name, **arguments)
    assert result.is_error, result.text
    assert files.contents == before
    return result.text


def test_all_are_transactional_and_closed() -> None:
    assert set(TOOLS) == {
        "ls", "read_file", "write_file", "edit_file", "delete_file", "glob", "grep"
    }  # fmt: skip
    for tool in FILE_TOOLS:
        assert tool.spec.effect is Effect.TRANSACTIONAL
        assert tool.spec.source == "builtin"
        schema = compile_schema(tool.spec.parameters)
        assert schema.violations({"path": "/a", "surplus": 1})


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ("/memories/x", "/memories/x"),
        ("//memories/x", "/memories/x"),
        ("/a/../memories/x", "/memories/x"),
        ("memories/x", "/memories/x"),
        ("/./memories//x/", "/memories/x"),
        ("/notes/x", "/notes/x"),
        ("/memories/../notes/x", "/notes/x"),
        ("/memoriesx", "/memoriesx"),
    ],
)
async def test_the_tool_writes_where_the_matcher_looked(asked: str, written: str) -> None:
    """Case 31 (deepagents#4882)."""
    files = DictFiles()
    await use(files, "write_file", path=asked, content="text")
    assert files.contents == {written: "text"}
    gated = evaluate(GATE, {"path": asked}) is not False
    assert gated == written.startswith(("/memories/", "/skills/"))


@pytest.mark.parametrize(
    "asked",
    [
        "/../x",
        "\\memories\\x",
        "/mem%6Fries/x",
        "/memories\u200b/x",
        "/memorie\uff53/x",
        "/a\0",
        " \n",
    ],
)
async def test_ambiguous_paths_are_gated_and_refused(asked: str) -> None:
    assert evaluate(GATE, {"path": asked}) is None
    assert "Nothing was done" in await fault(DictFiles(), "write_file", path=asked, content="x")


@pytest.mark.parametrize("folder", ["/memories", "/skills/", "/", "/a/.."])
async def test_a_folder_is_no_file(folder: str) -> None:
    for name, more in (("write_file", {"content": "x"}), ("delete_file", {})):
        assert "is a folder" in await fault(DictFiles(), name, path=folder, **more)


@pytest.mark.parametrize("arguments", [{"content": "x"}, {"path": 7, "content": "x"}])
def test_no_path_or_a_number_breaks_the_schema(arguments: dict[str, Any]) -> None:
    assert compile_schema(TOOLS["write_file"].spec.parameters).violations(arguments)


async def test_write_then_read_gives_the_same_text() -> None:
    files = DictFiles()
    content = "eins\r\nzwei\u2028drei\n\n vier"
    assert "bytes" in await text(files, "write_file", path="/a", content=content)
    assert await text(files, "read_file", path="/a") == content


@pytest.mark.parametrize("content", ["a\0b", "a\ud800b"])
async def test_text_that_no_database_holds_is_refused(content: str) -> None:
    files = DictFiles({"/a": "old"})
    result = await TOOLS["write_file"].run({"path": "/a", "content": content}, files)
    assert result.is_error
    edit = {"path": "/a", "old_string": "old", "new_string": content}
    assert (await TOOLS["edit_file"].run(edit, files)).is_error
    assert files.contents == {"/a": "old"}


async def test_a_file_is_bounded() -> None:
    files = DictFiles()
    await text(files, "write_file", path="/a", content="x" * MAX_FILE_BYTES)
    too_large = "ü" * (MAX_FILE_BYTES // 2 + 1)
    assert "bytes" in await fault(files, "write_file", path="/b", content=too_large)
    growing = {"old_string": "x", "new_string": "y" * 1000, "replace_all": True}
    assert "bytes" in await fault(files, "edit_file", path="/a", **growing)


async def test_read_shows_some_lines_and_how_to_read_on() -> None:
    files = DictFiles({"/a": "".join(f"{n}\n" for n in range(10))})
    shown = await text(files, "read_file", path="/a", offset=2, limit=3)
    assert shown.startswith("2\n3\n4\n[cut here: lines 3 to 5 of 10;")
    assert shown.endswith("read on with offset 5]")
    assert await text(files, "read_file", path="/a", offset=8) == "8\n9\n"
    assert "only 10 lines" in await fault(files, "read_file", path="/a", offset=10)


async def test_reading_on_reaches_every_line_once() -> None:
    lines = [f"{n} {'x' * 500}\n" for n in range(400)]
    files = DictFiles({"/a": "".join(lines)})
    seen, offset = "", 0
    while True:
        shown = await text(files, "read_file", path="/a", offset=offset)
        assert len(shown.encode()) <= MAX_RESULT_BYTES
        body, mark, where = shown.partition("\n[cut here: ")
        seen += body + ("\n" if mark else "")
        if not mark:
            break
        offset = int(where.rpartition(" ")[2].rstrip("]"))
    assert seen == "".join(lines)


async def test_a_line_longer_than_a_result_is_cut_with_a_mark() -> None:
    files = DictFiles({"/a": "é" * (MAX_FILE_BYTES // 2)})
    shown = await text(files, "read_file", path="/a")
    assert "[cut here: the result is longer" in shown
    assert len(shown.encode()) < MAX_RESULT_BYTES + 200


async def test_edit_replaces_one_place_or_all() -> None:
    files = DictFiles({"/a": "one two two"})
    await text(files, "edit_file", path="/a", old_string="one", new_string="1")
    assert files.contents == {"/a": "1 two two"}
    twice = {"old_string": "two", "new_string": "2"}
    assert "2 times" in await fault(files, "edit_file", path="/a", **twice)
    assert "2 places" in await text(files, "edit_file", path="/a", **twice, replace_all=True)
    assert files.contents == {"/a": "1 2 2"}
    assert "does not occur" in await fault(files, "edit_file", path="/a", **twice)
    assert "no file" in await fault(files, "edit_file", path="/b", **twice)


async def test_delete_says_whether_it_was_there() -> None:
    files = DictFiles({"/a": ""})
    assert await text(files, "delete_file", path="/a") == "Deleted /a."
    assert await fault(files, "delete_file", path="a") == "There is no file /a."


async def test_ls_lists_one_level() -> None:
    files = DictFiles({"/a/x": "1", "/a/b/c": "", "/a/b/d": "", "/ab": ""})
    assert (await text(files, "ls", path="/a")).splitlines() == ["/a/b/", "/a/x (1 bytes)"]
    assert (await text(files, "ls", path="/")).splitlines() == ["/a/", "/ab (0 bytes)"]
    assert await text(files, "ls", path="/a/x") == "/a/x (1 bytes)"
    assert "empty" in await text(files, "ls", path="/memories")
    assert "no file or folder /zz" in await fault(files, "ls", path="/zz")


async def test_ls_of_a_name_that_is_file_and_folder() -> None:
    files = DictFiles({"/a": "", "/a/b": ""})
    assert await text(files, "ls", path="/a") == "/a/b (0 bytes)"


async def test_glob_is_relative_to_its_folder() -> None:
    files = DictFiles(dict.fromkeys(["/a.md", "/x/b.md", "/x/y/c.md", "/x/y/c.txt"], ""))
    assert (await text(files, "glob", pattern="**/*.md")).split() == [
        "/a.md", "/x/b.md", "/x/y/c.md"
    ]  # fmt: skip
    assert await text(files, "glob", pattern="*.md", path="/x") == "/x/b.md"
    assert await text(files, "glob", pattern="/x/*.md", path="/x") == "/x/b.md"
    assert await text(files, "glob", pattern="*.py") == "No file matches."


async def test_grep_is_literal() -> None:
    files = DictFiles({"/a": "x.y\nxzy\n", "/b/c": f"{'p' * 900}x.y"})
    assert await text(files, "grep", pattern="x.y", path="/a") == "/a:1: x.y"
    lines = (await text(files, "grep", pattern="x.y")).splitlines()
    assert [line.rpartition(": ")[0] for line in lines] == ["/a:1", "/b/c:1"]
    assert len(lines[1]) < 600
    assert await text(files, "grep", pattern="(") == "No line matches."
    assert "one line" in await fault(files, "grep", pattern="x\ny")


async def test_many_matches_are_cut() -> None:
    files = DictFiles({"/a": "x\n" * (MAX_MATCHES + 1)})
    lines = (await text(files, "grep", pattern="x")).splitlines()
    assert len(lines) == MAX_MATCHES + 1
    assert "more than" in lines[-1]
