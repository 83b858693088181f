"""What the command takes from its environment; the only place here that reads it."""

import os


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


def editor() -> str:
    """The command line of the person's editor."""
    return os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
