"""The `hango` command.

Ends with 0 if all is well, 1 if something was refused or failed, 2 if it was called wrongly, 3 if
the server cannot be reached.
"""

import sys

import typer

from hango_cli import output
from hango_cli.commands import agents, approvals, audit, directory, runs, stack, threads, tools
from hango_cli.errors import Failed, Problem, Unreachable

_FAILED, _UNREACHABLE = 1, 3

app = typer.Typer(
    name="hango",
    help="Durable human approval for agents' tool calls.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for group in (stack, agents, runs, threads, approvals, audit, directory, tools):
    group.register(app)


def main() -> None:
    """Run the command line of this process."""
    try:
        app()
    except Problem as error:
        output.problem(error.document, str(error))
        sys.exit(_FAILED)
    except Failed as error:
        output.failure(str(error))
        sys.exit(_FAILED)
    except Unreachable as error:
        output.failure(str(error))
        sys.exit(_UNREACHABLE)
