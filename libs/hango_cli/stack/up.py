"""What `hango up` does: start the stack, say where it is, wait, stop it."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import tomllib
from pathlib import Path

from hango_cli.stack import demo_tenants
from hango_cli.stack.errors import StackError
from hango_cli.stack.plan import Options
from hango_cli.stack.supervisor import Stack


async def serve(options: Options, ready_file: Path | None) -> None:
    """Run the stack until SIGTERM, SIGINT or SIGHUP. From the main thread. Raises StackError."""
    check_tool_servers(options.tool_servers)
    ready = ReadyFile(ready_file)
    stopped = _stop_signal()
    stack = Stack(options, tell=_tell, on_change=lambda: ready.write(describe(stack)))
    try:
        starting = asyncio.create_task(stack.start())
        stopping = asyncio.create_task(stopped.wait())
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            ready.write(describe(stack))
            with contextlib.suppress(BrokenPipeError):  # whoever started us does not listen
                print(_banner(stack), json.dumps(describe(stack)), sep="\n", flush=True)
        else:
            starting.cancel()
        await stopping
        _tell("stopping")
    finally:
        ready.remove()
        await stack.stop()


def describe(stack: Stack) -> dict[str, object]:
    """The ready document (contract, section 1)."""
    plan = stack.plan
    return {
        "http": plan.url,
        "grpc": dict(plan.grpc),
        "nats": stack.reader_url,
        "postgres": stack.owner_dsns(),
        "tenant": demo_tenants.TENANT if stack.credentials else None,
        "credentials": stack.credentials,
        "pids": stack.pids,
        "metrics": {name: f"http://{address}/metrics" for name, address in plan.metrics.items()},
    }


class ReadyFile:
    """The file that tells others where the stack is. It holds secrets, so only we can read it,
    and it is there only while what it says is true.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path.absolute() if path else None
        self.remove()

    def write(self, document: dict[str, object]) -> None:
        """Replace the file, atomically."""
        if self._path is None:
            return
        fresh = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(document, file, indent=1)
            file.write("\n")
        fresh.rename(self._path)

    def remove(self) -> None:
        """Take it away. Raises StackError where the folder cannot be written."""
        if self._path is None:
            return
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            message = f"the ready file {self._path} cannot be written: {error.strerror}"
            raise StackError(message) from None


def check_tool_servers(file: Path | None) -> None:
    """Raises StackError unless the file is there and is TOML."""
    if file is None:
        return
    try:
        tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        message = f"the tool server file {file} cannot be read: {error.strerror}"
        raise StackError(message) from None
    except ValueError as error:  # TOML's and UTF-8's errors are both such
        message = f"the tool server file {file} is not TOML: {error}"
        raise StackError(message) from None


def _stop_signal() -> asyncio.Event:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stopped.set)
    return stopped


def _banner(stack: Stack) -> str:
    url = stack.plan.url
    lines = [
        "",
        "hango is up.",
        "",
        f"  inbox   {url}/",
        f"  API     {url}/v1   (described at {url}/docs)",
        f"  data    {stack.data}   (logs in {stack.data / 'logs'})",
        "",
    ]
    for tenant, users in demo_tenants.USERS.items() if stack.credentials else ():
        lines += [f"  API keys of the tenant {tenant}"]
        lines += [f"    {name:<14}{stack.credentials[name]}" for name in users]
        lines += [""]
    if stack.credentials:
        lines += [f"  export HANGO_URL={url} HANGO_API_KEY={stack.credentials['admin']}"]
    else:
        lines += [
            f"  export HANGO_URL={url} HANGO_APPROVALS_ADDR={stack.plan.grpc['approvals']}",
            "  There is no tenant yet: see `hango tenants create --help`; the internal key is in",
            f"  {stack.data / 'stack.json'}.",
        ]
    lines += [
        "  Ctrl-C stops everything; runs that wait for a person are there after a restart.",
        "",
    ]
    return "\n".join(lines)


def _tell(line: str) -> None:
    sys.stderr.write(f"hango: {line}\n")
    sys.stderr.flush()
