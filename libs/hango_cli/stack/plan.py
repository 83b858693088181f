"""What the stack consists of: addresses, databases, and each service's environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hango_platform.ids import new_key, new_secret

from hango_cli.postgres.databases import Database, Login
from hango_cli.settings import TLS
from hango_cli.stack.keep import Keep, require_free

GRPC = ("approvals", "runner")
SERVICES = (*GRPC, "gateway", "sweeper")
_HOST = "127.0.0.1"
# No process here calls gRPC after a fork: those that fork at once become another program.
_DEFAULTS = {"HANGO_DRAIN": "8s", "GRPC_ENABLE_FORK_SUPPORT": "0"}
# Its own database is all that a service may know of PostgreSQL, and the sweeper knows none.
# And between them there is nothing but this machine's loopback.
_OURS = (*(f"HANGO_{name.upper()}_DSN" for name in GRPC), *TLS)


@dataclass(frozen=True)
class Options:
    """What `hango up` was told."""

    data: Path
    http: tuple[str, int] = (_HOST, 8080)
    "Host and port; port 0 picks a free one, and the same again after a restart."
    tool_servers: Path | None = None
    postgres_dsn: str | None = None
    nats_url: str | None = None
    demo: bool = True
    durable: bool = True
    "Whether what was acknowledged survives a crash of the machine; of any process it does anyway."


@dataclass(frozen=True)
class Plan:
    """Everything that is decided before the first process is started."""

    http: str
    "The gateway's host:port."
    grpc: Mapping[str, str]
    metrics: Mapping[str, str]
    internal_key: str
    databases: Mapping[str, Database]
    tool_servers: Path | None
    audit_signing_key: str
    audit_anchor_file: Path
    "Where the heads of the audit chains are kept, outside the database."

    @property
    def url(self) -> str:
        """Where a client on this host reaches the gateway."""
        host, _, port = self.http.rpartition(":")
        return f"http://{_HOST if host in ('0.0.0.0', '[::]') else host}:{port}"  # noqa: S104 - read, not bound

    def environment(
        self, service: str, inherited: Mapping[str, str], *, admin_dsn: str, nats_url: str
    ) -> dict[str, str]:
        """The variables of one service: what the caller has set, and over it what we know."""
        ours = {
            "HANGO_INTERNAL_KEY": self.internal_key,
            "HANGO_NATS_URL": nats_url,
            "HANGO_METRICS_ADDR": self.metrics[service],
            "HANGO_HTTP_ADDR": self.http,
            **{f"HANGO_{name.upper()}_ADDR": address for name, address in self.grpc.items()},
        }
        if self.tool_servers is not None:
            ours["HANGO_TOOL_SERVERS"] = str(self.tool_servers)
        if service == "approvals":
            ours["HANGO_AUDIT_SIGNING_KEY"] = self.audit_signing_key
            ours["HANGO_AUDIT_ANCHOR_FILE"] = str(self.audit_anchor_file)
        if service in self.databases:
            dsn = self.databases[service].service_dsn(admin_dsn)
            ours[f"HANGO_{service.upper()}_DSN"] = dsn
        rest = {name: value for name, value in inherited.items() if name not in _OURS}
        return {**_DEFAULTS, **rest, **ours}


def make(options: Options, keep: Keep) -> Plan:
    """Choose ports and secrets, the kept ones where there are any. Raises StackError."""
    host, port = options.http
    if port:
        require_free(host.strip("[]"), port)
    plan = Plan(
        http=f"{host}:{port or keep.port('http')}",
        grpc={name: f"{_HOST}:{keep.port(name)}" for name in GRPC},
        metrics={name: f"{_HOST}:{keep.port(f'{name} metrics')}" for name in SERVICES},
        internal_key=keep.secret("internal key", lambda: new_secret("hi")),
        databases={name: _database(name, keep) for name in GRPC},
        tool_servers=options.tool_servers,
        audit_signing_key=keep.secret("audit signing key", new_key),
        audit_anchor_file=keep.path / "audit-heads.jsonl",
    )
    keep.save()
    return plan


def _database(service: str, keep: Keep) -> Database:
    name = f"hango_{service}"
    owner, login = (
        Login(role, keep.secret(f"{role} password", lambda: new_secret("hp")))
        for role in (f"{name}_owner", name)
    )
    return Database(name, owner, login, migrations=f"{name}.postgres")
