"""Ends with 0 if a service is ready: `healthy.py grpc HOST:PORT` or `healthy.py http URL`."""

import sys
import urllib.error
import urllib.request

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

_TIMEOUT = 3.0


def main(kind: str, where: str) -> int:
    """The process's exit status."""
    return 0 if {"grpc": _serves, "http": _answers}[kind](where) else 1


def _serves(address: str) -> bool:
    with grpc.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=_TIMEOUT)
        except grpc.RpcError:
            return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:  # noqa: S310 - the operator's
            return bool(answer.status == 200)
    except (urllib.error.URLError, TimeoutError):
        return False


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
