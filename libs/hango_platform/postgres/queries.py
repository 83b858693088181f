"""SQL by name: the statements live in `.sql` files, each behind a `-- name: NAME :KIND` line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal, cast

Kind = Literal["one", "many", "exec"]
_COMMENT = re.compile(r"--.*")
_WRITES = re.compile(r"\b(INSERT|UPDATE|DELETE)\b")
_HEAD = re.compile(r"^-- name: (\w+) :(one|many|exec)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Query:
    """One statement. `one` gives a row or None, `many` a list of rows, `exec` the number of rows
    it touched.
    """

    name: str
    kind: Kind
    sql: str

    @property
    def writes(self) -> bool:
        """Whether it may change something: a transaction of readers alone flushes nothing."""
        return _WRITES.search(_COMMENT.sub("", self.sql)) is not None


class Queries:
    """The statements of a package, as attributes."""

    def __init__(self, found: dict[str, Query]) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Query:
        try:
            return self._found[name]
        except KeyError:
            raise AttributeError(name) from None

    def all(self) -> list[Query]:
        """Every statement, in file order."""
        return list(self._found.values())


def load(package: str) -> Queries:
    """Read every `.sql` file of the package that holds named statements. Raises ValueError for a
    name used twice.
    """
    found: dict[str, Query] = {}
    for file in sorted(files(package).iterdir(), key=lambda f: f.name):
        if not file.name.endswith(".sql") or file.name == "schema.sql":
            continue
        parts = _HEAD.split(file.read_text(encoding="utf-8"))
        for name, kind, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            if name in found:
                msg = f"{package}: two queries are called {name}"
                raise ValueError(msg)
            found[name] = Query(name, cast("Kind", kind), body.strip().rstrip(";"))
    return Queries(found)
