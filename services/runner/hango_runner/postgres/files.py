"""The virtual file system: every version of every file, in the transaction of the call that
writes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hango_platform.postgres.queries import load
from hango_policy.paths import is_under

from hango_runner.agent.tools import FileEntry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hango_platform.postgres.transaction import Transaction

    from hango_runner.agent.state import Run

SQL = load(__package__)

_LASTING = ("/memories", "/skills")


class SqlFiles:
    """The files that one call of this run can reach."""

    def __init__(self, tx: Transaction, run: Run, turn: int) -> None:
        self._tx = tx
        self._run = run
        self._turn = turn
        self._of_agent = f"agent:{run.agent}"
        self._of_thread = scope_of(run.id, run.thread_id)

    async def read(self, path: str) -> FileEntry | None:
        """The newest version, if it has content."""
        row = await self._tx.one(SQL.read_file, self._run.tenant_id, self._scope(path), path)
        return None if row is None or row["content"] is None else FileEntry(path, row["content"])

    async def write(self, path: str, content: str) -> None:
        """A new version."""
        await self._put(path, content)

    async def delete(self, path: str) -> bool:
        """A new version without content, if there is a file."""
        if await self.read(path) is None:
            return False
        await self._put(path, None)
        return True

    async def below(self, folder: str) -> Sequence[FileEntry]:
        """All files at or below this folder, by path."""
        rows = await self._tx.many(
            SQL.files_below,
            self._run.tenant_id,
            [self._of_agent, self._of_thread],
            folder.rstrip("/") + "/",
        )
        return [FileEntry(r["path"], r["content"]) for r in rows]

    async def _put(self, path: str, content: str | None) -> None:
        await self._tx.exec(
            SQL.write_file,
            self._run.tenant_id,
            self._scope(path),
            path,
            content,
            self._run.id,
            self._turn,
        )

    def _scope(self, path: str) -> str:
        lasting = any(is_under(path, folder) for folder in _LASTING)
        return self._of_agent if lasting else self._of_thread


def scope_of(run_id: str, thread_id: str | None) -> str:
    """Whose files a run has, beside its agent's: its thread's, or its own."""
    # Told apart, since a thread's name is its creator's to choose: it may look like a run's id.
    return f"run:{run_id}" if thread_id is None else f"thread:{thread_id}"
