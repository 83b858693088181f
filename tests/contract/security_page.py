"""The matrix of `docs/guides/security.md`, made from what is tested.

    python -m tests.contract.security_page

writes it anew, after a row was added.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tests.contract import test_matrix_rest
from tests.contract.matrix import FORBIDDEN, NOT_APPROVER, NOT_FOUND, OK

if TYPE_CHECKING:
    from tests.contract.matrix import Row

PAGE = Path(__file__).parents[2] / "docs/guides/security.md"
_MATRIX = re.compile(r"(?<=<!-- matrix -->\n).*?(?=<!-- /matrix -->)", re.DOTALL)
_WORDS = {OK: "yes", FORBIDDEN: "403", NOT_APPROVER: "403", NOT_FOUND: "404"}
_HEAD = (
    "| route | owner | admin | creator | other member | other tenant | key that reads |\n"
    "|---|---|---|---|---|---|---|\n"
)


def table() -> str:
    """The matrix, as the page must show it."""
    lines = [
        f"| `{name}` | {_cells(rule.row)} |\n"
        for name, rule in test_matrix_rest.RULES.items()
        if rule.row is not None
    ]
    return _HEAD + "".join(lines)


def _cells(row: Row) -> str:
    foreign = {_WORDS[row.foreign], _WORDS[row.foreign_member]}
    other_tenant = "its own" if foreign & {"yes"} else ", ".join(sorted(foreign, reverse=True))
    cells = [_WORDS[c] for c in (row.owner, row.admin, row.creator, row.other)]
    return " | ".join([*cells, other_tenant, "yes" if row.reads else "403"])


def page() -> str:
    """The whole page with the matrix in it."""
    return _MATRIX.sub(lambda _: table(), PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(page())
