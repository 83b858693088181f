"""Whom a server runs as, and which folders that account can reach."""

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from hango_cli.embedded.errors import EmbeddedServerError

_CANDIDATES = ("postgres", "nobody")


@dataclass(frozen=True)
class Account:
    """An unprivileged account of this host."""

    uid: int
    gid: int

    def can_reach(self, path: Path) -> bool:
        """Whether every folder above `path` lets this account through (ACLs are not looked at)."""
        return all(self._may_pass(folder) for folder in path.resolve().parents)

    def _may_pass(self, folder: Path) -> bool:
        status = folder.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode & 0o100)
        if status.st_gid == self.gid:
            return bool(status.st_mode & 0o010)
        return bool(status.st_mode & 0o001)


def account_for(data: Path) -> Account | None:
    """The account PostgreSQL must drop to: None unless we are root, as which it refuses to run.

    Existing data keeps its owner, so data made by an ordinary user, or brought from a host with
    other account numbers, still starts. New data goes to `postgres` or `nobody`.
    """
    if os.geteuid() != 0:
        return None
    if data.exists() and (owner := data.stat()).st_uid != 0:
        return Account(owner.st_uid, owner.st_gid)
    for name in _CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    message = (
        "PostgreSQL refuses to run as root, and this host has neither of the accounts "
        f"{' and '.join(_CANDIDATES)} to run it as; start hango as an ordinary user"
    )
    raise EmbeddedServerError(message)
