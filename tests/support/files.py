"""The files of one call, in memory."""

from collections.abc import Sequence

from hango_policy.paths import canonical, is_under
from hango_runner.agent.tools import FileEntry


class DictFiles:
    """A `Files` over a dict; refuses paths that are not canonical, as no tool may pass one."""

    def __init__(self, contents: dict[str, str] | None = None) -> None:
        self.contents = dict(contents or {})

    async def read(self, path: str) -> FileEntry | None:
        _check(path)
        return FileEntry(path, self.contents[path]) if path in self.contents else None

    async def write(self, path: str, content: str) -> None:
        _check(path)
        content.encode()
        assert "\0" not in content
        self.contents[path] = content

    async def delete(self, path: str) -> bool:
        _check(path)
        return self.contents.pop(path, None) is not None

    async def below(self, folder: str) -> Sequence[FileEntry]:
        _check(folder)
        found = sorted(path for path in self.contents if is_under(path, folder))
        return [FileEntry(path, self.contents[path]) for path in found]


def _check(path: str) -> None:
    assert canonical(path) == path
