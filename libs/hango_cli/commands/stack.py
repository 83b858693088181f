"""Running hango: all of it (`up`, `demo`), or one service (`serve`, `migrate`, `check-config`)."""

import enum
from pathlib import Path
from typing import Annotated

import typer

from hango_cli import output
from hango_cli.errors import Failed

_DATA = Path(".hango")


class ServiceName(enum.StrEnum):
    """A service that can run alone."""

    APPROVALS = "approvals"
    RUNNER = "runner"
    GATEWAY = "gateway"
    SWEEPER = "sweeper"


class OwnerName(enum.StrEnum):
    """A service with a database."""

    APPROVALS = "approvals"
    RUNNER = "runner"


class Way(enum.StrEnum):
    """Where a migration goes."""

    UP = "up"
    DOWN = "down"
    STATUS = "status"


Data = Annotated[Path, typer.Option(file_okay=False, help="Where everything is kept.")]


def register(root: typer.Typer) -> None:
    """Add these commands."""
    for command in (up, demo, serve, migrate):
        root.command()(command)
    root.command("check-config")(check_config)


def up(
    data: Data = _DATA,
    http: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to serve; port 0 picks a free one.")
    ] = "127.0.0.1:8080",
    ready_file: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write addresses and keys here, as JSON.")
    ] = None,
    tool_servers: Annotated[
        Path | None, typer.Option(envvar="HANGO_TOOL_SERVERS", help="A TOML file.")
    ] = None,
    postgres_dsn: Annotated[
        str | None, typer.Option(help="A superuser's URL of a PostgreSQL to use.")
    ] = None,
    nats_url: Annotated[
        str | None, typer.Option(help="The URL of a NATS with JetStream to use.")
    ] = None,
    demo: Annotated[bool, typer.Option(help="Make the demo tenants.")] = True,
    durable: Annotated[
        bool, typer.Option(help="Sync to disk; without, a crash of the machine may lose data.")
    ] = True,
) -> None:
    """Serve until interrupted: PostgreSQL, NATS and the four services on this host."""
    import asyncio

    from hango_cli.stack.plan import Options
    from hango_cli.stack.up import serve

    options = Options(
        data=data,
        http=_address(http),
        tool_servers=tool_servers.absolute() if tool_servers else None,
        postgres_dsn=postgres_dsn,
        nats_url=nats_url,
        demo=demo,
        durable=durable,
    )
    asyncio.run(serve(options, ready_file))


def demo(
    data: Annotated[
        Path | None, typer.Option(file_okay=False, help="Keep its data here; else nothing stays.")
    ] = None,
) -> None:
    """Show the main job once: an agent's call stops, somebody decides, the run goes on."""
    from hango_cli.demo import run

    run(data)


def serve(service: ServiceName) -> None:
    """Run one service, configured by HANGO_* variables."""
    from importlib import import_module

    _require_right_settings(service)
    import_module(f"hango_{service}.__main__").main()


def migrate(
    service: OwnerName,
    way: Annotated[Way, typer.Argument()] = Way.UP,
    steps: Annotated[int, typer.Argument(min=1, help="How many steps down.")] = 1,
) -> None:
    """Move a service's database to the present schema, or back; HANGO_<SERVICE>_DSN must be the
    owner's.
    """
    import asyncio

    from hango_cli.postgres.migrating import migrate

    asyncio.run(migrate(service.value, way.value, steps))


def check_config(service: ServiceName) -> None:
    """Report every wrong HANGO_* variable of a service at once; ends with 1 if there is any."""
    from hango_cli.config import values

    _require_right_settings(service)
    output.table(
        [{"variable": name, "value": value} for name, value in values(service.value)],
        ["variable", "value"],
    )


def _require_right_settings(service: ServiceName) -> None:
    from hango_cli.config import problems

    faults = problems(service.value)
    for name, fault in faults:
        output.failure(f"{name}: {fault}")
    if faults:
        message = f"{len(faults)} of the variables of {service} are wrong"
        raise Failed(message)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        message = f"{text} is not HOST:PORT"
        raise typer.BadParameter(message)
    return host, int(port)
