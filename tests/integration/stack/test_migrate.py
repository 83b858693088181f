"""`hango migrate`, as the operator of a deployment uses it."""

import sys
from collections.abc import Callable

import pytest
from hango_cli.main import main
from hango_platform.postgres.migrate import load_migrations

STEPS = {
    service: [f"{m.version:04d} {m.name}" for m in load_migrations(f"hango_{service}.postgres")]
    for service in ("approvals", "runner")
}
Hango = Callable[..., tuple[int, str]]


@pytest.fixture
def hango(
    empty_database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Hango:
    """Run the command; its exit code and what it said."""
    for service in STEPS:
        monkeypatch.setenv(f"HANGO_{service.upper()}_DSN", empty_database)

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["hango", "migrate", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out + captured.err

    return run


@pytest.mark.parametrize("service", STEPS)
def test_up_status_down_and_up_again(hango: Hango, service: str) -> None:
    steps = STEPS[service]
    assert hango(service, "status") == (0, "".join(f"{s}  missing\n" for s in steps))
    assert hango(service) == (0, "".join(f"{s}  applied\n" for s in steps))
    assert hango(service, "up") == (0, "nothing to do\n")
    assert hango(service, "down", "2") == (
        0,
        "".join(f"{s}  taken back\n" for s in reversed(steps[-2:])),
    )
    _, status = hango(service, "status")
    words = ["applied"] * (len(steps) - 2) + ["missing"] * 2
    assert status.split()[2::3] == words
    assert hango(service, "up")[0] == 0


def test_a_database_that_is_not_there(hango: Hango, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANGO_RUNNER_DSN", "postgresql://nobody@127.0.0.1:1/none")
    code, said = hango("runner", "status")
    assert code == 3
    assert "cannot be reached" in said


def test_without_a_dsn(hango: Hango, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HANGO_RUNNER_DSN")
    code, said = hango("runner")
    assert code == 1
    assert "HANGO_RUNNER_DSN is not set" in said
