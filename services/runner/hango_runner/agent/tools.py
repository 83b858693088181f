"""What a tool is to the agent: a name, a schema, an effect, and a way to call it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Effect(enum.StrEnum):
    """What may be done about a call whose outcome is unknown (protocol, section 5)."""

    READ = "read"
    """Safe to repeat."""
    KEYED = "keyed"
    """The server deduplicates by the idempotency key: repeat with the same key."""
    ONCE = "once"
    """Never repeated: the outcome stays unknown."""
    TRANSACTIONAL = "transactional"
    """Effect and result are one transaction: what has no result did not happen."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as models and people see it. `parameters` is a JSON Schema object."""

    name: str
    description: str
    parameters: dict[str, Any]
    effect: Effect
    source: str = "builtin"
    unavailable: str = ""


@dataclass(frozen=True, slots=True)
class ToolCallContext:
    """What travels along with a call."""

    tenant_id: str
    tenant: str
    agent: str
    run_id: str
    turn: int
    tool_call_id: str
    idempotency_key: str
    fencing_token: str
    inputs: tuple[bytes, ...] = ()
    """All answers that people have given to this call so far, as JSON text, in order."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answered. `structured` is JSON text."""

    text: str
    is_error: bool = False
    structured: bytes | None = None
    refused: bool = False
    """A layer above the executor has answered: the tool was not called."""


@dataclass(frozen=True, slots=True)
class NeedsInput:
    """A tool asks a person before it goes on. Both are JSON text; nothing was done yet."""

    payload: bytes
    schema: bytes | None = None


class ToolNotCalled(Exception):
    """The tool could not be called, and surely nothing happened: an error result."""


class ToolOutcomeUnknown(Exception):
    """The call was on its way when the server died, hung or went silent (protocol, section 5)."""


class RemoteTool(Protocol):
    """A tool that lives outside the database."""

    async def call(
        self, name: str, arguments: bytes, context: ToolCallContext
    ) -> ToolResult | NeedsInput:
        """Call it with the exact bytes. Raises ToolNotCalled, ToolOutcomeUnknown."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of the virtual file system; `content` is text, `path` canonical."""

    path: str
    content: str = field(repr=False)


class Files(Protocol):
    """The files that one call can reach, inside the transaction that also stores its result.

    Paths are canonical (`hango_policy.paths.canonical`). `/memories/` and `/skills/` belong to the
    agent and last; everything else belongs to the thread.
    """

    async def read(self, path: str) -> FileEntry | None:
        """The file as it is now."""

    async def write(self, path: str, content: str) -> None:
        """Make or replace it."""

    async def delete(self, path: str) -> bool:
        """Remove it; whether it was there."""

    async def below(self, folder: str) -> Sequence[FileEntry]:
        """All files at or below this folder, by path."""


class TransactionalTool(Protocol):
    """A built-in whose effect and result commit together."""

    async def run(self, arguments: dict[str, Any], files: Files) -> ToolResult:
        """Do it. Faults that the model should read are error results, not exceptions."""
