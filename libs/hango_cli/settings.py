"""What the command takes from its environment; the only place here that reads it."""

import os
from pathlib import Path


def inherited() -> dict[str, str]:
    """The environment for services and tool servers that we start: ours, without the variables
    that would change where and how PostgreSQL is reached, or whose name a person speaks in.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PG") and name not in ("HANGO_URL", "HANGO_API_KEY")
    }


def owner_dsn(service: str) -> str | None:
    """The DSN that `hango migrate` uses for this service's database."""
    return os.environ.get(f"HANGO_{service.upper()}_DSN")


TLS = ("HANGO_TLS_CERT", "HANGO_TLS_KEY", "HANGO_TLS_CA")


def tls_files() -> list[Path] | None:
    """Certificate, key and authority for calls to services that demand them; None without."""
    found = [os.environ.get(name) for name in TLS]
    return [Path(file) for file in found if file] if all(found) else None


def editor() -> str:
    """The command line of the person's editor."""
    return os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
