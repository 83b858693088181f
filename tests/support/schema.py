"""The schema of a database as text, to be compared with a service's `schema.sql`.

    python -m tests.support.schema hango_approvals.postgres

writes that file anew, after a migration was added.
"""

import asyncio
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

from hango_cli.embedded.binaries import postgres_programs
from hango_platform.postgres.migrate import Migrator

from tests.support.backend import running_postgres

_NOISE = re.compile(
    r"^(--.*|SET .*|SELECT pg_catalog\.set_config.*|\\(un)?restrict .*)\n", re.MULTILINE
)


def schema_file(package: str) -> Path:
    """The `schema.sql` of a service's database package."""
    return Path(str(files(package))) / "schema.sql"


async def dump(dsn: str) -> str:
    """What `pg_dump` says of the schema, without what differs from run to run."""
    program = postgres_programs(None) / "pg_dump"
    process = await asyncio.create_subprocess_exec(
        program, "--schema-only", "--no-owner", dsn, stdout=subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    text = _NOISE.sub("", output.decode())
    return re.sub(r"\n{2,}", "\n\n", text).strip() + "\n"


async def migrated(package: str) -> str:
    """The dump of a new database with all migrations of a package."""
    with running_postgres() as server:
        dsn = await server.create_database()
        await Migrator(dsn, package).up()
        return await dump(dsn)


if __name__ == "__main__":
    schema_file(sys.argv[1]).write_text(asyncio.run(migrated(sys.argv[1])))
