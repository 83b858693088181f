"""Moving a service's database between schema versions."""

from collections.abc import Sequence

import asyncpg
from hango_platform.postgres.migrate import Migration, MigrationError, Migrator

from hango_cli import output
from hango_cli.errors import Failed, Unreachable
from hango_cli.settings import owner_dsn


async def migrate(service: str, way: str, steps: int) -> None:
    """Go up, down by so many steps, or tell where it is. Raises Failed or Unreachable."""
    dsn = owner_dsn(service)
    if dsn is None:
        message = f"HANGO_{service.upper()}_DSN is not set; it must be the database owner's URL"
        raise Failed(message)
    migrator = Migrator(dsn, f"hango_{service}.postgres")
    try:
        match way:
            case "up":
                _told("applied", await migrator.up())
            case "down":
                _told("taken back", await migrator.down(steps))
            case _:
                for step in await migrator.status():
                    output.line(f"{_name(step)}  {'applied' if step.applied else 'missing'}")
    except (MigrationError, asyncpg.PostgresError) as error:
        message = f"{service}: {error}"
        raise Failed(message) from error
    except (OSError, asyncpg.InterfaceError) as error:
        message = f"the database of {service} cannot be reached: {error}"
        raise Unreachable(message) from error


def _told(what: str, steps: Sequence[Migration]) -> None:
    for step in steps:
        output.line(f"{_name(step)}  {what}")
    if not steps:
        output.line("nothing to do", "dim")


def _name(step: Migration) -> str:
    return f"{step.version:04d} {step.name}"
