"""Ends with 0 if a service is ready: `healthy.py grpc HOST:PORT` or `healthy.py http URL`.

Where HANGO_TLS_CERT, _KEY and _CA are set it proves itself with them, and the service's certificate
must name HOST.
"""

import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

_TIMEOUT = 3.0


def main(kind: str, where: str) -> int:
    """The process's exit status."""
    return 0 if {"grpc": _serves, "http": _answers}[kind](where) else 1


def _serves(address: str) -> bool:
    with _channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=_TIMEOUT)
        except grpc.RpcError:
            return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def _channel(address: str) -> grpc.Channel:
    files = [os.environ.get(f"HANGO_TLS_{name}") for name in ("CA", "KEY", "CERT")]
    found = [Path(file).read_bytes() for file in files if file]
    if len(found) < len(files):
        return grpc.insecure_channel(address)
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(*found))


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:  # noqa: S310 - the operator's
            return bool(answer.status == 200)
    except (urllib.error.URLError, TimeoutError):
        return False


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
