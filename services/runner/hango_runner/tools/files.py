"""The built-ins over the virtual file system.

Paths go through the one canonicaliser that the rules use too, so a tool touches exactly the file
that a rule looked at (protocol, section 4, "Paths").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hango_policy.errors import PathRefused
from hango_policy.paths import MAX_PATH_CHARS, canonical

from hango_runner.tools.builtin import Builtin, ToolFault, builtin_spec
from hango_runner.tools.globs import Glob
from hango_runner.tools.text import MAX_RESULT_BYTES, is_storable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hango_runner.agent.tools import FileEntry, Files

MAX_FILE_BYTES = 256 * 1024
"""The largest file, in UTF-8 bytes."""
DEFAULT_LINES = 2000
"""How many lines `read_file` shows where it is not told."""
MAX_MATCHES = 500
"""How many paths or lines `glob` and `grep` list."""
MAX_LINE_CHARS = 500
"""How much of a line `grep` shows."""

_FOLDERS = frozenset({"/", "/memories", "/skills"})

_PATH = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_PATH_CHARS,
    "description": "Absolute path with forward slashes, such as /notes/plan.md.",
}
_FOLDER = {**_PATH, "description": "Folder to look in, such as /notes; / when left out."}
_TEXT = {"type": "string", "maxLength": MAX_FILE_BYTES}


async def _ls(arguments: dict[str, Any], files: Files) -> str:
    folder = _path(arguments["path"])
    entries = await files.below(folder)
    if [entry.path for entry in entries] == [folder]:
        return _listed(entries[0])
    lines = {}
    for entry in entries:
        if entry.path == folder:
            continue
        name, _, rest = entry.path.removeprefix(_inside(folder)).partition("/")
        lines[name] = f"{_inside(folder)}{name}/" if rest else _listed(entry)
    if not lines and folder not in _FOLDERS:
        raise _no_folder(folder)
    return "\n".join(lines[name] for name in sorted(lines)) or f"{folder} is empty."


async def _read_file(arguments: dict[str, Any], files: Files) -> str:
    entry = await _existing(_path(arguments["path"]), files)
    if not entry.content:
        return f"{entry.path} is empty."
    first, most = int(arguments.get("offset", 0)), int(arguments.get("limit", DEFAULT_LINES))
    lines = _lines(entry.content)
    if first >= len(lines):
        message = f"{entry.path} has only {len(lines)} lines."
        raise ToolFault(message)
    shown = _fitting(lines[first : first + most])
    end = first + len(shown)
    text = "".join(shown)
    if end == len(lines):
        return text
    where = f"lines {first + 1} to {end} of {len(lines)}; read on with offset {end}"
    return text.removesuffix("\n") + f"\n[cut here: {where}]"


async def _write_file(arguments: dict[str, Any], files: Files) -> str:
    path = _file_path(arguments["path"])
    size = _checked_size(arguments["content"])
    await files.write(path, arguments["content"])
    return f"Wrote {path} ({size} bytes)."


async def _edit_file(arguments: dict[str, Any], files: Files) -> str:
    entry = await _existing(_file_path(arguments["path"]), files)
    old, new = arguments["old_string"], arguments["new_string"]
    found = entry.content.count(old)
    if found == 0:
        message = f"old_string does not occur in {entry.path}. Nothing was changed."
        raise ToolFault(message)
    if found > 1 and not arguments.get("replace_all", False):
        message = (
            f"old_string occurs {found} times in {entry.path}. Give more of the text around it, "
            "or set replace_all. Nothing was changed."
        )
        raise ToolFault(message)
    # Before the text is built: many occurrences of a little become a lot.
    _refuse_size(len(entry.content.encode()) + found * (_size(new) - _size(old)))
    content = entry.content.replace(old, new)
    _checked_size(content)
    await files.write(entry.path, content)
    return f"Changed {entry.path} ({found} {'place' if found == 1 else 'places'})."


async def _delete_file(arguments: dict[str, Any], files: Files) -> str:
    path = _file_path(arguments["path"])
    if not await files.delete(path):
        raise _no_file(path)
    return f"Deleted {path}."


async def _glob(arguments: dict[str, Any], files: Files) -> str:
    folder = _path(arguments.get("path", "/"))
    pattern = Glob(arguments["pattern"])
    inside = "/" if pattern.is_absolute else _inside(folder)
    found = (
        entry.path
        for entry in await files.below(folder)
        if entry.path.startswith(inside) and pattern.matches(entry.path.removeprefix(inside))
    )
    return _some(found) or "No file matches."


async def _grep(arguments: dict[str, Any], files: Files) -> str:
    wanted = arguments["pattern"]
    if "\n" in wanted:
        message = "pattern must be text of one line."
        raise ToolFault(message)
    entries = await files.below(_path(arguments.get("path", "/")))
    return _some(_lines_with(wanted, entries)) or "No line matches."


def _lines_with(wanted: str, entries: Sequence[FileEntry]) -> Iterator[str]:
    for entry in entries:
        if wanted not in entry.content:
            continue
        for number, line in enumerate(entry.content.split("\n"), start=1):
            if wanted in line:
                yield f"{entry.path}:{number}: {line[:MAX_LINE_CHARS]}"


def _some(found: Iterator[str]) -> str:
    lines: list[str] = []
    for line in found:
        if len(lines) == MAX_MATCHES:
            lines.append(f"[cut here: more than {MAX_MATCHES} matches; narrow the search]")
            break
        lines.append(line)
    return "\n".join(lines)


def _lines(content: str) -> list[str]:
    """By line feeds alone: `str.splitlines` knows a dozen other ends of a line."""
    *whole, rest = content.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])


def _fitting(lines: Sequence[str]) -> Sequence[str]:
    """The first lines that fit into one result; at least one, which `presentable` then cuts."""
    room = MAX_RESULT_BYTES - 200  # the marker's
    for count, line in enumerate(lines):
        room -= _size(line)
        if room < 0:
            return lines[: max(count, 1)]
    return lines


def _path(asked: str) -> str:
    try:
        return canonical(asked)
    except PathRefused as error:
        message = f"The path {error.reason}. Nothing was done."
        raise ToolFault(message) from None


def _file_path(asked: str) -> str:
    path = _path(asked)
    if path in _FOLDERS:
        message = f"{path} is a folder. Nothing was done."
        raise ToolFault(message)
    return path


async def _existing(path: str, files: Files) -> FileEntry:
    entry = await files.read(path)
    if entry is None:
        raise _no_file(path)
    return entry


def _no_file(path: str) -> ToolFault:
    return ToolFault(f"There is no file {path}.")


def _no_folder(path: str) -> ToolFault:
    return ToolFault(f"There is no file or folder {path}.")


def _checked_size(content: str) -> int:
    if not is_storable(content):
        message = "The text has a NUL or an unpaired surrogate, which no file can hold."
        raise ToolFault(message)
    size = _size(content)
    _refuse_size(size)
    return size


def _refuse_size(size: int) -> None:
    if size > MAX_FILE_BYTES:
        message = f"A file can have {MAX_FILE_BYTES} bytes, not {size}. Nothing was changed."
        raise ToolFault(message)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _inside(folder: str) -> str:
    return folder.rstrip("/") + "/"


def _listed(entry: FileEntry) -> str:
    return f"{entry.path} ({_size(entry.content)} bytes)"


FILE_TOOLS: tuple[Builtin, ...] = (
    Builtin(
        builtin_spec("ls", "List the files and folders in a folder.", {"path": _PATH}, ("path",)),
        _ls,
    ),
    Builtin(
        builtin_spec(
            "read_file",
            "Read a text file, whole or some of its lines. A long answer is cut and says how to "
            "read on.",
            {
                "path": _PATH,
                "offset": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": MAX_FILE_BYTES,
                    "description": "How many lines to skip; 0 when left out.",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_FILE_BYTES,
                    "description": f"How many lines to read; {DEFAULT_LINES} when left out.",
                },
            },
            ("path",),
        ),
        _read_file,
    ),
    Builtin(
        builtin_spec(
            "write_file",
            "Write a text file. One that exists is replaced. Files below /memories/ and /skills/ "
            "last and are shared by all runs of this agent; others belong to this thread.",
            {
                "path": _PATH,
                "content": {**_TEXT, "description": "The whole text of the file."},
            },
            ("path", "content"),
        ),
        _write_file,
    ),
    Builtin(
        builtin_spec(
            "edit_file",
            "Replace a piece of a text file by another. The piece must occur exactly once, unless "
            "replace_all is set.",
            {
                "path": _PATH,
                "old_string": {**_TEXT, "minLength": 1, "description": "The text to replace."},
                "new_string": {**_TEXT, "description": "The text to put in its place."},
                "replace_all": {
                    "type": "boolean",
                    "description": "Replace every occurrence; false when left out.",
                },
            },
            ("path", "old_string", "new_string"),
        ),
        _edit_file,
    ),
    Builtin(
        builtin_spec("delete_file", "Delete a file.", {"path": _PATH}, ("path",)),
        _delete_file,
    ),
    Builtin(
        builtin_spec(
            "glob",
            "Find files by name. In a pattern * and ? stand for characters of one name, [abc] for "
            "one of these, and ** as a whole name for any number of folders: **/*.md.",
            {
                "pattern": {"type": "string", "minLength": 1, "maxLength": 256},
                "path": _FOLDER,
            },
            ("pattern",),
        ),
        _glob,
    ),
    # Plain text, on purpose: a model's regular expression could keep the process busy for ever.
    Builtin(
        builtin_spec(
            "grep",
            "Find the lines that contain a text. The text is taken literally, not as a regular "
            "expression, and letter case counts.",
            {
                "pattern": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1000,
                    "description": "The text to look for.",
                },
                "path": {**_FOLDER, "description": "File or folder to look in; / when left out."},
            },
            ("pattern",),
        ),
        _grep,
    ),
)
"""All built-ins over files."""
