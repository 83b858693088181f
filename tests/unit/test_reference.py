"""`docs/reference/configuration.md` holds every variable of every service, and marks secrets."""

from __future__ import annotations

from pathlib import Path

import pytest
from hango_platform.settings import ServiceSettings
from pydantic import SecretStr

from tools import reference

PAGE = Path(__file__).parents[2] / "docs/reference/configuration.md"


class Example(ServiceSettings):
    """Secrets in the forms that settings have."""

    plain: str = "x"
    secret: SecretStr
    perhaps: SecretStr | None = None


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == reference.configuration()


@pytest.mark.parametrize("service", reference.SERVICES)
def test_every_variable_is_there_and_described(service: str) -> None:
    lines = PAGE.read_text().splitlines()
    for name, field in reference.settings_of(service).model_fields.items():
        assert field.description, f"{service}: {name} needs a description"
        (row,) = [line for line in lines if line.startswith(f"| `HANGO_{name.upper()}` |")]
        assert ("*Secret.*" in row) == reference.is_secret(field)


def test_secrets_are_known_in_every_form() -> None:
    secrets = {name for name, field in Example.model_fields.items() if reference.is_secret(field)}
    assert secrets == {"internal_key", "nats_url", "secret", "perhaps"}


def test_what_must_be_set_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Defaults are the classes' own: what the environment says now is not looked at."""
    monkeypatch.setenv("HANGO_APPROVAL_TTL", "3h")
    by_name = {variable.name: variable for variable in reference.variables()}
    assert by_name["HANGO_APPROVAL_TTL"].default == "`1d`"
    assert by_name["HANGO_INTERNAL_KEY"].default == "must be set"
    assert by_name["HANGO_TOOL_SERVERS"].default == reference.NOTHING
