"""`hango check-config`: every fault at once, and no secret shown."""

import pytest

from tests.unit.cli.conftest import Hango

KEY = "a-very-long-key-that-nobody-may-see"
SERVICES = ("approvals", "runner", "gateway", "sweeper")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANGO_INTERNAL_KEY", KEY)
    for service in ("APPROVALS", "RUNNER"):
        monkeypatch.setenv(f"HANGO_{service}_DSN", f"postgresql://me:{KEY}@db/{service}")


@pytest.mark.parametrize("service", SERVICES)
def test_right_settings_are_shown_but_for_the_secrets(hango: Hango, service: str) -> None:
    result = hango("check-config", service)
    assert result.code == 0
    assert "HANGO_INTERNAL_KEY" in result.out
    assert "HANGO_DRAIN" in result.out
    assert KEY not in result.out


@pytest.mark.parametrize("service", SERVICES)
def test_every_wrong_variable_is_told_at_once(
    hango: Hango, monkeypatch: pytest.MonkeyPatch, service: str
) -> None:
    monkeypatch.setenv("HANGO_INTERNAL_KEY", "too-short")
    monkeypatch.setenv("HANGO_DRAIN", "soon")
    monkeypatch.setenv("HANGO_METRICS_ADDR", "nowhere")
    result = hango("check-config", service)
    assert result.code == hango("serve", service).code == 1
    for name in ("HANGO_INTERNAL_KEY", "HANGO_DRAIN", "HANGO_METRICS_ADDR"):
        assert f"{name}: " in result.err
    assert "3 of the variables" in result.err
    assert "too-short" not in result.err
