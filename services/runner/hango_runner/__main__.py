"""`python -m hango_runner`: the runner as a process of its own."""

from __future__ import annotations

from hango_platform import lifecycle

from hango_runner import app
from hango_runner.settings import RunnerSettings


def main() -> None:
    """Serve until told to stop."""
    settings = RunnerSettings()
    lifecycle.run("runner", settings, lambda stack, tasks: app.start(settings, stack, tasks))


if __name__ == "__main__":
    main()
