"""`python -m hango_gateway`."""

from __future__ import annotations

from functools import partial

from hango_platform import lifecycle

from hango_gateway.app import start
from hango_gateway.settings import Settings


def main() -> None:
    """Run the gateway until it is told to stop."""
    settings = Settings()
    lifecycle.run("gateway", settings, partial(start, settings))


if __name__ == "__main__":
    main()
