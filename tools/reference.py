"""Write the reference pages that are made from the code, or check that they are current.

python tools/reference.py            write docs/reference/configuration.md and errors.md
python tools/reference.py --check    write nothing; name what differs and exit 1
"""

import argparse
import ast
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

from hango_platform.errors import BY_REASON, HangoError
from hango_platform.rpc.status import to_status
from hango_platform.settings import ServiceSettings
from pydantic import SecretStr
from pydantic.fields import FieldInfo

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
SERVICES = ("approvals", "runner", "gateway", "sweeper")
ROOMS = ("libs/hango_platform", "services")
NOTHING = "-"

CONFIGURATION = """\
# Configuration

<!-- Made by `make generate` from the services' settings classes: edit those. -->

Every service reads its settings from variables of its environment, and from nowhere else.
`hango check-config SERVICE` reports every wrong one at once and never shows a secret's value.

Durations are written as `500ms`, `90s`, `5m`, `24h` or `7d`, also joined (`1m30s`); addresses as
`host:port`. An `…_ADDR` is where its owner listens and where the others call it: one value serves
both where the host has one name.

| variable | services | default | what it is |
|---|---|---|---|
"""

CONFIGURATION_END = """
`OTEL_*` variables mean what OpenTelemetry says they mean. The commands that act for a person read
`HANGO_URL` and `HANGO_API_KEY`; `hango migrate` reads `HANGO_APPROVALS_DSN` or `HANGO_RUNNER_DSN`,
which must be the database owner's there, not the service's. Variables for tests alone:
`HANGO_TEST_POSTGRES_DSN` and `HANGO_TEST_NATS_URL` (servers to use in place of the embedded ones),
`HANGO_MODEL_EXAMPLES` (how many lives the state machine plays) and `HANGO_FAULT` (where a process
breaks; never set it in earnest).
"""

ERRORS = """\
# Errors

<!-- Made by `make generate` from `hango_platform.errors`: edit that. -->

REST answers a refusal with a problem document (RFC 9457, `application/problem+json`): `type` is
`/problems/` and the reason in lower case with hyphens, a page that says what this table says;
`title`, `status`, `detail`; `reason`; and the members named here. `errors` is a list of
`{pointer, message}`, JSON pointers into the body; a parameter is pointed to like a member of it.
gRPC answers with the code, an `ErrorInfo` whose `reason` is the same and whose `domain` is `hango`
(members are its metadata, as JSON text), and a `BadRequest` where fields are at fault.

No error carries the value of an argument of a tool call. After a 4xx nothing has changed. 503 comes
with `Retry-After`; after 504 repeat with the same `Idempotency-Key` to learn what happened.

| reason | status | gRPC | title | what it means | members |
|---|---|---|---|---|---|
"""


@dataclass
class Variable:
    """One variable, as one or more services take it."""

    name: str
    field: FieldInfo
    default: str
    services: list[str]


def main() -> int:
    """Return the process's exit status."""
    parser = argparse.ArgumentParser(description="Make the reference pages from the code.")
    parser.add_argument("--check", action="store_true", help="compare only; fail on a difference")
    check: bool = parser.parse_args().check
    pages = {"configuration.md": configuration(), "errors.md": errors()}
    changed = [name for name, text in pages.items() if text != _present(name)]
    for name in changed:
        if not check:
            REFERENCE.mkdir(parents=True, exist_ok=True)
            (REFERENCE / name).write_text(pages[name])
        print(f"  {'differs' if check else 'written'}    docs/reference/{name}")
    if check and changed:
        print("The reference does not match the code: run `make generate` and commit the result.")
        return 1
    return 0


def configuration() -> str:
    """The page about variables."""
    return CONFIGURATION + "".join(map(_variable_row, variables())) + CONFIGURATION_END


def errors() -> str:
    """The page about refusals."""
    members = members_by_class()
    rows = (_error_row(kind, members.get(kind.__name__, set())) for kind in BY_REASON.values())
    return ERRORS + "".join(rows)


def variables() -> list[Variable]:
    """Every variable of every service: those of all first, then in the order of the services."""
    found: dict[str, Variable] = {}
    for service in SERVICES:
        kind = settings_of(service)
        defaults = kind.model_construct().model_dump(mode="json", warnings=False)
        for name, field in kind.model_fields.items():
            variable = f"HANGO_{name.upper()}"
            # Who owns an address describes it best.
            if variable not in found:
                found[variable] = Variable(variable, field, _default(field, defaults, name), [])
            elif name.startswith(service):
                found[variable].field = field
            found[variable].services.append(service)
    return sorted(found.values(), key=lambda v: len(v.services) < len(SERVICES))


def settings_of(service: str) -> type[ServiceSettings]:
    """The settings class of a service."""
    module = import_module(f"hango_{service}.settings")
    return next(
        kind
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, ServiceSettings)
        and kind.__module__ == module.__name__
    )


def members_by_class() -> dict[str, set[str]]:
    """The members that the code gives to each error where it makes one."""
    found: dict[str, set[str]] = {}
    for call in _calls():
        name = call.func.attr if isinstance(call.func, ast.Attribute) else _id(call.func)
        if name in {kind.__name__ for kind in BY_REASON.values()}:
            given = {keyword.arg for keyword in call.keywords if keyword.arg}
            named = {"errors" if member == "violations" else member for member in given}
            found.setdefault(name, set()).update(named)
    return found


def is_secret(field: FieldInfo) -> bool:
    """Whether the value must not be shown."""
    return _holds_secret(field.annotation)


def _holds_secret(annotation: Any) -> bool:
    return annotation is SecretStr or any(map(_holds_secret, get_args(annotation)))


def _calls() -> Iterator[ast.Call]:
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            nodes = ast.walk(ast.parse(path.read_text()))
            yield from (node for node in nodes if isinstance(node, ast.Call))


def _id(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _default(field: FieldInfo, defaults: dict[str, Any], name: str) -> str:
    if field.is_required():
        return "must be set"
    if isinstance(field.default, SecretStr):
        return f"`{field.default.get_secret_value()}`"
    value = defaults[name]
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return NOTHING if value in (None, "") else f"`{value}`"


def _variable_row(variable: Variable) -> str:
    everyone = len(variable.services) == len(SERVICES)
    services = "all" if everyone else ", ".join(variable.services)
    secret = " *Secret.*" if is_secret(variable.field) else ""
    return _row(
        f"`{variable.name}`",
        services,
        variable.default,
        f"{variable.field.description}{secret}",
    )


def _error_row(kind: type[HangoError], members: set[str]) -> str:
    code = to_status(kind()).code
    meaning = " ".join((inspect.getdoc(kind) or "").split())
    return _row(
        f"`{kind.reason}`",
        str(kind.status),
        code.name,
        kind.title,
        meaning,
        ", ".join(f"`{member}`" for member in sorted(members)) or NOTHING,
    )


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _present(name: str) -> str:
    path = REFERENCE / name
    return path.read_text() if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
