"""`python -m hango_sweeper`."""

from __future__ import annotations

from functools import partial

from hango_platform import lifecycle

from hango_sweeper.app import start
from hango_sweeper.settings import Settings


def main() -> None:
    """Run the sweeper until it is told to stop."""
    settings = Settings()
    lifecycle.run("sweeper", settings, partial(start, settings))


if __name__ == "__main__":
    main()
