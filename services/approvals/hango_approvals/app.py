"""The parts of the approvals service, and how they are put together."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
from hango.approvals.v1 import approvals_pb2, approvals_pb2_grpc
from hango.identity.v1 import identity_pb2, identity_pb2_grpc
from hango_platform.bus.jetstream import Bus
from hango_platform.errors import Unavailable
from hango_platform.outbox import outbox
from hango_platform.outbox.publish import KIND, Publisher
from hango_platform.outbox.relay import Relay
from hango_platform.postgres.pool import Database
from hango_platform.postgres.sealing import Sealing
from hango_platform.rpc.channel import Channel
from hango_platform.rpc.credentials import CachedCredentials
from hango_platform.rpc.server import Server
from hango_platform.rpc.tls import Tls
from hango_platform.rpc.tokens import Tokens
from hango_platform.telemetry.metrics import Metrics

from hango_approvals.anchors import AnchorFile
from hango_approvals.domain.signing import Signer
from hango_approvals.oidc import Oidc
from hango_approvals.postgres.store import Store
from hango_approvals.runs_client import RunsClient
from hango_approvals.servicer.approvals import ApprovalsServicer, AuditServicer
from hango_approvals.servicer.identity import (
    DirectoryServicer,
    IdentityServicer,
    ProvisioningServicer,
)
from hango_approvals.servicer.suspensions import MaintenanceServicer, SuspensionsServicer
from hango_approvals.use_cases.audit import (
    AnchorHeads,
    CheckApprovals,
    ExportAudit,
    ListAudit,
    PruneAudit,
    VerifyAudit,
)
from hango_approvals.use_cases.authenticate import Authenticate
from hango_approvals.use_cases.decide import Decide
from hango_approvals.use_cases.directory import Directory, FindApprover
from hango_approvals.use_cases.expire import ExpireSuspensions
from hango_approvals.use_cases.open import OpenSuspension
from hango_approvals.use_cases.provision import ProvisionTenant
from hango_approvals.use_cases.reading import GetApproval, ListApprovals
from hango_approvals.use_cases.refusals import DecideOnRecord
from hango_approvals.use_cases.report import RecordAudit, ReportExecutions
from hango_approvals.use_cases.verdicts import GetVerdicts, PruneApprovals
from hango_approvals.use_cases.withdraw import ReconcileSuspensions, WithdrawSuspension

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AsyncExitStack
    from datetime import timedelta

    from google.protobuf.descriptor import ServiceDescriptor
    from hango_platform.lifecycle import Tasks
    from hango_platform.rpc.caller import Principal

    from hango_approvals.settings import Settings

    Services = Sequence[tuple[ServiceDescriptor, Callable[[Any], None]]]

log = logging.getLogger(__name__)

_POOL = 20
_READY_SECONDS = 1.0
_GAUGE_SECONDS = 5.0


async def start(settings: Settings, stack: AsyncExitStack, tasks: Tasks) -> Mapping[str, Any]:
    """Serve. Works without NATS, and without R but for what only R knows."""
    metrics = Metrics()
    internal = Tokens(settings.internal_key.get_secret_value(), "approvals")
    database = Database(
        settings.approvals_dsn.get_secret_value(),
        max_size=_POOL,
        pooled=settings.postgres_pooler,
        sealing=Sealing.of(settings.encryption_key),
    )
    await database.open()
    stack.push_async_callback(database.close)
    stack.push_async_callback(tasks.stop)
    bus = Bus(settings.nats_url.get_secret_value(), "approvals")
    relay = Relay(database, {KIND: Publisher(bus, "approvals")})
    store = Store(database, relay)
    tls = Tls.of(settings)
    channel = Channel(settings.runner_addr, internal, tls)
    stack.push_async_callback(channel.close)
    authenticate = Authenticate(store, await _oidc(settings, stack))

    async def principal(credential: str) -> Principal:
        return (await authenticate(credential)).principal

    proof = Proof.of(settings, store)
    server = Server(
        services(settings, store, RunsClient(channel), authenticate, metrics, proof),
        authenticate=CachedCredentials(principal),
        internal=internal,
        metrics=metrics,
    )
    address = await server.start(settings.approvals_addr, tls)
    stack.push_async_callback(server.stop, settings.drain.total_seconds())
    tasks.spawn(bus.run(), "bus")
    tasks.spawn(relay.run(), "relay")
    tasks.spawn(authenticate.note_uses(), "key uses")
    if proof.anchor is not None:
        tasks.spawn(_anchor(proof.anchor, settings.audit_anchor_interval), "anchors")
    tasks.spawn(_report_readiness(database, server), "readiness")
    tasks.spawn(_measure(store, database, metrics), "gauges")
    return {"grpc": address, "metrics": metrics.serve(settings.metrics_addr)}


async def _oidc(settings: Settings, stack: AsyncExitStack) -> Oidc | None:
    """The reader of tokens, where an issuer is set."""
    if not settings.oidc_issuer:
        return None
    return Oidc(settings, await stack.enter_async_context(httpx.AsyncClient()))


@dataclass(frozen=True, slots=True)
class Proof:
    """What makes and checks the proof that nobody changed the trail."""

    verify: VerifyAudit
    anchor: AnchorHeads | None
    prune: PruneAudit | None

    @classmethod
    def of(cls, settings: Settings, store: Store) -> Proof:
        """By the settings: without a key nothing is signed, and nothing pruned."""
        if settings.audit_signing_key is None:
            return cls(VerifyAudit(store), None, None)
        seed = bytes.fromhex(settings.audit_signing_key.get_secret_value())
        signer = Signer(seed, filter(None, settings.audit_trusted_keys.split(",")))
        log.info("audit heads are signed", extra={"public_key": signer.public_key})
        file, age = settings.audit_anchor_file, settings.audit_retention
        anchors = AnchorFile(file, signer) if file is not None else None
        return cls(
            VerifyAudit(store, signer, anchors),
            AnchorHeads(store, signer, anchors) if anchors is not None else None,
            PruneAudit(store, signer, age) if age is not None else None,
        )


def services(
    settings: Settings,
    store: Store,
    runs: RunsClient,
    authenticate: Authenticate,
    metrics: Metrics,
    proof: Proof,
) -> Services:
    """Everything that is served."""
    verify = proof.verify
    approvals = ApprovalsServicer(
        DecideOnRecord(Decide(store, runs, metrics), store),
        GetApproval(store),
        ListApprovals(store, runs),
    )
    suspensions = SuspensionsServicer(
        OpenSuspension(store, settings.approval_ttl),
        GetVerdicts(store),
        WithdrawSuspension(store),
        ReportExecutions(store),
        RecordAudit(store),
    )
    maintenance = MaintenanceServicer(
        ExpireSuspensions(store, metrics),
        ReconcileSuspensions(store, runs, metrics),
        PruneApprovals(store, proof.prune),
        CheckApprovals(store, verify),
    )
    audit = AuditServicer(ListAudit(store), verify, ExportAudit(store))
    identity = IdentityServicer(authenticate, FindApprover(store))
    directory = DirectoryServicer(Directory(store))
    provisioning = ProvisioningServicer(ProvisionTenant(store))
    a, a_grpc = approvals_pb2.DESCRIPTOR.services_by_name, approvals_pb2_grpc
    i, i_grpc = identity_pb2.DESCRIPTOR.services_by_name, identity_pb2_grpc
    return [
        (a["ApprovalsService"], partial(a_grpc.add_ApprovalsServiceServicer_to_server, approvals)),
        (a["AuditService"], partial(a_grpc.add_AuditServiceServicer_to_server, audit)),
        (
            a["SuspensionsService"],
            partial(a_grpc.add_SuspensionsServiceServicer_to_server, suspensions),
        ),
        (
            a["ApprovalsMaintenanceService"],
            partial(a_grpc.add_ApprovalsMaintenanceServiceServicer_to_server, maintenance),
        ),
        (i["IdentityService"], partial(i_grpc.add_IdentityServiceServicer_to_server, identity)),
        (i["DirectoryService"], partial(i_grpc.add_DirectoryServiceServicer_to_server, directory)),
        (
            i["ProvisioningService"],
            partial(i_grpc.add_ProvisioningServiceServicer_to_server, provisioning),
        ),
    ]


async def _anchor(anchor: AnchorHeads, interval: timedelta) -> None:
    """Keep signed heads, for ever."""
    while True:
        try:
            await anchor()
        except OSError as error:
            log.error("signed heads cannot be written", extra={"error": str(error)})
        except Unavailable:
            log.warning("heads were not signed")
        await asyncio.sleep(interval.total_seconds())


async def _report_readiness(database: Database, server: Server) -> None:
    """Tell health checks about the service's own database; nothing else makes it unready."""
    while True:
        try:
            await database.ping()
        except Unavailable as error:
            log.warning("not ready", extra={"why": error.detail})
            await server.report(ready=False)
        else:
            await server.report(ready=True)
        await asyncio.sleep(_READY_SECONDS)


async def _measure(store: Store, database: Database, metrics: Metrics) -> None:
    """Keep the gauges that are read from tables."""
    seen: set[str] = set()
    while True:
        try:
            async with store.system() as work:
                pending = await work.maintenance.pending_by_tool()
            await outbox.measure(database, metrics)
        except Unavailable:
            log.debug("gauges were not refreshed")
        else:
            seen |= set(pending)
            for tool in seen:
                metrics.approvals_pending.labels(tool).set(pending.get(tool, 0))
        await asyncio.sleep(_GAUGE_SECONDS)
