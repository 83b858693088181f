"""SQL by name: the statements live in `.sql` files, each behind a `-- name: NAME :KIND` line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Literal, cast

Kind = Literal["one", "many", "exec"]
_COMMENT = re.compile(r"--.*")
_WRITES = re.compile(r"\b(INSERT|UPDATE|DELETE)\b")
_SEALS = re.compile(r"^-- seals( json)?: ([$\d ]+)$", re.MULTILINE)
_TENANT = re.compile(r"^-- .*?\$(\d+) tenant[ _]id\b", re.MULTILINE)
_OPENS = re.compile(r"^-- opens( inside)?: ([\w ]+)$", re.MULTILINE)
_HEAD = re.compile(r"^-- name: (\w+) :(one|many|exec)$", re.MULTILINE)


@dataclass(frozen=True)
class Query:
    """One statement. `one` gives a row or None, `many` a list of rows, `exec` the number of rows
    it touched.
    """

    name: str
    kind: Kind
    sql: str

    @cached_property
    def seals(self) -> dict[int, bool]:
        """The parameters (from 0) whose values are sealed, and whether they are JSON; by the
        comments `-- seals: $1` and `-- seals json: $2`.
        """
        return {
            int(number) - 1: kind == " json"
            for kind, numbers in _SEALS.findall(self.sql)
            for number in re.findall(r"\$(\d+)", numbers)
        }

    @cached_property
    def tenant(self) -> int:
        """The parameter (from 0) that names the tenant."""
        found = _TENANT.search(self.sql)
        if found is None:
            msg = f"{self.name} seals values of a tenant that its comments do not name"
            raise ValueError(msg)
        return int(found[1]) - 1

    @cached_property
    def opens(self) -> dict[str, bool]:
        """The columns whose values are opened, and whether they are within a JSON text; by the
        comments `-- opens: a b` and `-- opens inside: c`.
        """
        return {
            name: kind == " inside"
            for kind, names in _OPENS.findall(self.sql)
            for name in names.split()
        }

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
