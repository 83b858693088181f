"""Settings as they come from the environment."""

from __future__ import annotations

import pytest
from hango_platform.settings import Addr, Lanes, PostgresUrl, ServiceSettings
from pydantic import ValidationError


class Example(ServiceSettings):
    lanes: Lanes
    example_addr: Addr = "127.0.0.1:0"
    example_dsn: PostgresUrl


GOOD = {
    "HANGO_INTERNAL_KEY": "k" * 32,
    "HANGO_LANES": "default:16,batch:4",
    "HANGO_EXAMPLE_ADDR": "[::1]:80",
    "HANGO_EXAMPLE_DSN": "postgresql://somewhere/db",
}


@pytest.fixture(autouse=True)
def good(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in GOOD.items():
        monkeypatch.setenv(name, value)


def test_good_values_are_read() -> None:
    settings = Example()
    assert settings.lanes == {"default": 16, "batch": 4}
    assert settings.example_addr == "[::1]:80"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("LANES", "default", "must be lanes and their slots"),
        ("LANES", "{}", "must be lanes and their slots"),
        ("EXAMPLE_ADDR", "80", "must be host:port"),
        ("EXAMPLE_ADDR", "here:99999", "must be host:port"),
        ("EXAMPLE_DSN", "secret", "must be a URL that begins with postgresql://"),
        ("NATS_URL", "http://secret", "must be a URL that begins with nats://"),
        ("DRAIN", "secret", "must be a duration"),
        ("INTERNAL_KEY", "secret", "at least 32"),
    ],
)
def test_a_wrong_value_is_refused_by_name_and_never_shown(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(f"HANGO_{name}", value)
    with pytest.raises(ValidationError) as refusal:
        Example()
    assert said in str(refusal.value)
    assert name.lower() in str(refusal.value)
    assert "secret" not in str(refusal.value)


def test_every_wrong_value_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANGO_LANES", "x")
    monkeypatch.delenv("HANGO_EXAMPLE_DSN")
    with pytest.raises(ValidationError) as refusal:
        Example()
    assert refusal.value.error_count() == 2
