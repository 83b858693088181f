"""Tokens of an OIDC issuer beside API keys: contract, section 2."""

import asyncio
import base64
import hmac
import json
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import jwt
import pytest
from hango.approvals.v1 import approvals_pb2, approvals_pb2_grpc
from hango.common.v1 import access_pb2
from hango.identity.v1 import identity_pb2 as pb
from hango.identity.v1 import identity_pb2_grpc as grpc_pb
from hango_approvals import oidc
from hango_approvals.settings import Settings
from hango_platform import clock, errors
from pydantic import SecretStr, ValidationError

from tests.support.approvals import Approvals, Tenant, decision, migrate, pending, running
from tests.support.backend import NatsServer, PostgresServer
from tests.support.issuer import AUDIENCE, Issuer, serving
from tests.support.waiting import eventually


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with serving() as made:
        yield made


@pytest.fixture
async def service(
    issuer: Issuer, postgres_server: PostgresServer, nats_server: NatsServer
) -> AsyncIterator[Approvals]:
    dsn = await postgres_server.database_from_template("approvals", migrate)
    async with running(
        dsn, nats_server.url, oidc_issuer=issuer.url, oidc_audience=AUDIENCE
    ) as approvals:
        yield approvals
    await postgres_server.drop_database(dsn)


async def authenticate(service: Approvals, credential: str) -> Any:
    request = pb.AuthenticateRequest(credential=credential)
    return await service.call("gateway", grpc_pb.IdentityServiceStub, "Authenticate", request)


async def test_a_token_makes_its_user_and_lets_him_decide(
    service: Approvals, tenant: Tenant, issuer: Issuer
) -> None:
    token = issuer.token(sub="u1", tenant=tenant.name, role="admin", email="ann@example.org")
    first, second = await asyncio.gather(authenticate(service, token), authenticate(service, token))
    assert first == second
    assert (first.principal.tenant_id, first.principal.role) == (tenant.id, access_pb2.ROLE_ADMIN)
    assert first.principal.user_name == "ann@example.org"
    assert first.expires_at.seconds == 4_000_000_000
    stub = grpc_pb.DirectoryServiceStub
    caller = await service.direct(token, stub, "GetCaller", pb.GetCallerRequest())
    assert caller.principal == first.principal
    rows = await service.rows(
        "SELECT action, actor_kind FROM audit_events WHERE target_id = $1",
        first.principal.user_id,
    )
    assert [tuple(r) for r in rows] == [("user.create", "system")]

    demoted = issuer.token(sub="u1", tenant=tenant.name, role="member")
    changed = (await authenticate(service, demoted)).principal
    assert (changed.user_id, changed.role) == (first.principal.user_id, access_pb2.ROLE_MEMBER)
    rows = await service.rows("SELECT role FROM users WHERE id = $1", changed.user_id)
    assert [r["role"] for r in rows] == ["member"]


async def test_the_decider_is_the_tokens_user(
    service: Approvals, tenant: Tenant, issuer: Issuer
) -> None:
    pause = await service.open(tenant, [pending()])
    token = issuer.token(sub="u2", tenant=tenant.name, role="owner")
    request = approvals_pb2.DecideApprovalsRequest(run_id=pause.run_id, decisions=[decision()])
    stub = approvals_pb2_grpc.ApprovalsServiceStub
    answer = await service.direct(token, stub, "DecideApprovals", request)
    user = (await authenticate(service, token)).principal
    assert answer.approvals[0].decided_by == user.user_id


async def test_a_name_that_is_taken_is_replaced_by_the_subject(
    service: Approvals, tenant: Tenant, issuer: Issuer
) -> None:
    token = issuer.token(sub="u3", tenant=tenant.name, role="admin", email="owner")
    found = (await authenticate(service, token)).principal
    assert found.user_name == "u3"
    assert found.user_id != tenant["owner"].user_id


async def test_a_disabled_user_is_refused(
    service: Approvals, tenant: Tenant, issuer: Issuer
) -> None:
    token = issuer.token(sub="u4", tenant=tenant.name, role="admin")
    found = (await authenticate(service, token)).principal
    await service.execute("UPDATE users SET disabled = true WHERE id = $1", found.user_id)
    with pytest.raises(errors.Unauthenticated):
        await authenticate(service, token)


BAD: list[dict[str, Any]] = [
    {"role": None},
    {"role": "king"},
    {"role": "ADMIN"},
    {"role": ["admin"]},
    {"tenant": None},
    {"tenant": "nowhere"},
    {"tenant": 7},
    {"sub": None},
    {"sub": ""},
    {"sub": "a\x00"},
    {"aud": "other"},
    {"iss": "https://elsewhere.example"},
    {"exp": 1_700_000_001},
    {"exp": None},
    {"kid": "unknown"},
]


async def test_what_is_wrong_with_a_token(
    service: Approvals, tenant: Tenant, issuer: Issuer
) -> None:
    good: dict[str, Any] = {"sub": "u", "tenant": tenant.name, "role": "admin"}
    for claims in BAD:
        with pytest.raises(errors.Unauthenticated):
            raise AssertionError(claims, await authenticate(service, issuer.token(**good | claims)))


async def test_only_the_issuers_own_signature_counts(
    service: Approvals, tenant: Tenant, issuer: Issuer
) -> None:
    claims = {
        "iss": issuer.url,
        "aud": AUDIENCE,
        "iat": 1_700_000_000,
        "exp": 4_000_000_000,
        "sub": "u",
        "tenant": tenant.name,
        "role": "owner",
    }
    mallory = Issuer()
    mallory.url = issuer.url
    forged = [
        mallory.token(sub="u", tenant=tenant.name, role="owner"),
        jwt.encode(claims, "k" * 64, algorithm="HS256", headers={"kid": "k1"}),
        jwt.encode(claims, "", algorithm="none", headers={"kid": "k1"}),
        *(signed_with_a_public_key(claims, text) for text in issuer.public_texts()),
        "a.b.c",
    ]
    for token in forged:
        with pytest.raises(errors.Unauthenticated):
            await authenticate(service, token)


def signed_with_a_public_key(claims: dict[str, Any], public: bytes) -> str:
    """The old trick: the issuer's published key as the secret of a symmetric signature."""

    def encoded(part: bytes) -> str:
        return base64.urlsafe_b64encode(part).decode().rstrip("=")

    header = json.dumps({"alg": "HS256", "typ": "JWT", "kid": "k1"}).encode()
    text = f"{encoded(header)}.{encoded(json.dumps(claims).encode())}"
    return f"{text}.{encoded(hmac.digest(public, text.encode(), 'sha256'))}"


@pytest.mark.parametrize(
    ("claim", "seconds", "good"),
    [("exp", -50, True), ("exp", -70, False), ("nbf", 50, True), ("nbf", 70, False)],
)
async def test_clocks_may_differ_by_a_minute(
    service: Approvals, tenant: Tenant, issuer: Issuer, claim: str, seconds: int, good: bool
) -> None:
    at = int(clock.now().timestamp()) + seconds
    claims: dict[str, Any] = {"sub": "u", "tenant": tenant.name, "role": "member", claim: at}
    token = issuer.token(**claims)
    if good:
        assert (await authenticate(service, token)).principal.user_name == "u"
    else:
        with pytest.raises(errors.Unauthenticated):
            await authenticate(service, token)


async def test_claims_by_other_names(
    issuer: Issuer, nats_server: NatsServer, postgres_server: PostgresServer
) -> None:
    dsn = await postgres_server.database_from_template("approvals", migrate)
    names = {"oidc_tenant_claim": "org", "oidc_role_claim": "https://hango/role"}
    given = {"oidc_issuer": issuer.url, "oidc_audience": AUDIENCE, **names}
    async with running(dsn, nats_server.url, **given) as service:
        tenant = await service.tenant()
        token = issuer.token(sub="u", org=tenant.name, **{"https://hango/role": "owner"})
        assert (await authenticate(service, token)).principal.role == access_pb2.ROLE_OWNER
        plain = issuer.token(sub="u", tenant=tenant.name, role="owner")
        with pytest.raises(errors.Unauthenticated):
            await authenticate(service, plain)
    await postgres_server.drop_database(dsn)


async def test_an_issuer_that_fails_is_not_asked_for_every_token(
    service: Approvals, tenant: Tenant, issuer: Issuer
) -> None:
    issuer.broken = True
    for _ in range(20):
        with pytest.raises(errors.Unavailable):
            await authenticate(service, issuer.token(sub="u", tenant=tenant.name, role="admin"))
    assert issuer.discovered <= 3  # one, and one more a second
    issuer.broken = False

    async def let_in() -> Any:
        try:
            return await authenticate(
                service, issuer.token(sub="u", tenant=tenant.name, role="admin")
            )
        except errors.Unavailable:
            return None

    assert (await eventually(let_in)).principal.user_name == "u"
    # With keys at hand, an issuer that fails is not asked for each unknown key either.
    issuer.broken, before = True, issuer.discovered
    for _ in range(20):
        with pytest.raises(errors.Unauthenticated):
            await authenticate(
                service, issuer.token(sub="u", tenant=tenant.name, role="admin", kid="x")
            )
    assert issuer.discovered == before


async def test_new_keys_are_fetched_but_not_for_every_forged_token(
    service: Approvals, tenant: Tenant, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    good: dict[str, Any] = {"sub": "u", "tenant": tenant.name, "role": "admin"}
    assert (await authenticate(service, issuer.token(**good))).principal.user_name == "u"
    for _ in range(5):
        with pytest.raises(errors.Unauthenticated):
            await authenticate(service, issuer.token(**good, kid="unknown"))
    assert issuer.asked == 1
    issuer.rotate("k2")
    later = SimpleNamespace(monotonic=lambda: clock.monotonic() + 11)
    monkeypatch.setattr(oidc, "clock", later)
    assert (await authenticate(service, issuer.token(**good))).principal.user_name == "u"
    assert issuer.asked == 2


async def test_without_the_issuers_keys_nobody_knows(
    service: Approvals, tenant: Tenant, issuer: Issuer
) -> None:
    issuer.name_of_itself = "https://elsewhere.example"
    with pytest.raises(errors.Unavailable):
        await authenticate(service, issuer.token(sub="u", tenant=tenant.name, role="admin"))
    assert (await authenticate(service, tenant.secrets["admin"])).principal


@pytest.mark.parametrize(
    "bad",
    [
        {"oidc_issuer": "http://issuer.example", "oidc_audience": "a"},
        {"oidc_issuer": "ftp://127.0.0.1", "oidc_audience": "a"},
        {"oidc_issuer": "https://issuer.example"},
    ],
)
def test_settings_that_are_not_safe(bad: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Settings(
            internal_key=SecretStr("k" * 32), approvals_dsn=SecretStr("postgresql://x/y"), **bad
        )
