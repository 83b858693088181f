"""Asks a service for its health again and again, in a process that does nothing else: `probe.py
ADDRESS`. Prints when each began and its seconds; ends with its input.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

EVERY = 0.02


def main() -> None:
    """Probe until stdin closes."""
    over = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    with grpc.insecure_channel(sys.argv[1]) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        while not over.wait(EVERY):
            began = time.monotonic()
            stub.Check(health_pb2.HealthCheckRequest())
            sys.stdout.write(f"{began} {time.monotonic() - began}\n")


if __name__ == "__main__":
    main()
