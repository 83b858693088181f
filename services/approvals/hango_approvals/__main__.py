"""`python -m hango_approvals`: serve until told to stop."""

from __future__ import annotations

from functools import partial

from hango_platform import lifecycle

from hango_approvals.app import start
from hango_approvals.settings import Settings


def main() -> None:
    """Read the settings and serve."""
    settings = Settings()
    lifecycle.run("approvals", settings, partial(start, settings))


if __name__ == "__main__":
    main()
