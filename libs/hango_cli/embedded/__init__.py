"""PostgreSQL and NATS from their wheels, as children of this process.

For laptops, demos and tests: no Docker, no installed database, any user, root too. What holds:

- The servers end with the process that started them, `kill -9` included (`shim`).
- Both listen on 127.0.0.1 only and ask for a generated password; there is no unix socket.
- Nothing of the host is changed: no account, and no permission of a folder we did not create.
- Ports and passwords stay the same over a restart with the same data folder.

Linux only. `start()` must be called from the main thread and blocks for up to a second or so.
"""

from hango_cli.embedded.errors import EmbeddedServerError
from hango_cli.embedded.nats import EmbeddedNats
from hango_cli.embedded.postgres import EmbeddedPostgres

__all__ = ["EmbeddedNats", "EmbeddedPostgres", "EmbeddedServerError"]
