"""Who sees what: owners and admins all of their tenant, members what they have created."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hango_platform.errors import NotFound
from hango_platform.ids import is_id
from hango_platform.postgres.queries import load

if TYPE_CHECKING:
    from hango_platform.postgres.transaction import Row, Transaction
    from hango_platform.rpc.caller import Principal

SQL = load(__package__)


def visible(row: Row, by: Principal) -> bool:
    """Whether this user sees a run or a thread."""
    return by.role.may_decide or str(row["created_by"]) == by.user_id


def only_of(by: Principal) -> str | None:
    """Whose rows alone this user sees; None for everybody's."""
    return None if by.role.may_decide else by.user_id


async def seen(tx: Transaction, run_id: str, by: Principal) -> Row:
    """The run, if this user sees it. Raises NotFound."""
    run = await tx.one(SQL.get_run, by.tenant_id, run_id) if is_id(run_id) else None
    if run is None or not visible(run, by):
        raise NotFound
    return run
