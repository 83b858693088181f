-- What is to be published, and what was answered to whom.
CREATE TABLE outbox (
    id           uuid PRIMARY KEY,
    tenant_id    uuid NOT NULL,
    kind         text NOT NULL,
    key          text NOT NULL,
    payload      bytea NOT NULL,
    traceparent  text NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    leased_until timestamptz NOT NULL,
    attempts     integer NOT NULL DEFAULT 0,
    last_error   text,
    published_at timestamptz,
    dead_at      timestamptz
);
CREATE INDEX outbox_due ON outbox (leased_until) WHERE published_at IS NULL AND dead_at IS NULL;
CREATE INDEX outbox_published ON outbox (published_at) WHERE published_at IS NOT NULL;

CREATE TABLE idempotency (
    tenant_id       uuid NOT NULL,
    user_id         uuid NOT NULL,
    route           text NOT NULL,
    key             text NOT NULL,
    request_digest  bytea NOT NULL,
    -- All that a decide answered is read again from the suspension that it closed for ever.
    suspension_id   uuid NOT NULL,
    resume_event_id uuid NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, user_id, route, key)
);
CREATE INDEX idempotency_by_age ON idempotency (created_at);

ALTER TABLE outbox ENABLE ROW LEVEL SECURITY;
ALTER TABLE outbox FORCE ROW LEVEL SECURITY;
ALTER TABLE idempotency ENABLE ROW LEVEL SECURITY;
ALTER TABLE idempotency FORCE ROW LEVEL SECURITY;

CREATE POLICY one_tenant ON outbox TO hango_api
    USING (tenant_id = nullif(current_setting('hango.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('hango.tenant', true), '')::uuid);
CREATE POLICY one_tenant ON idempotency TO hango_api
    USING (tenant_id = nullif(current_setting('hango.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('hango.tenant', true), '')::uuid);
CREATE POLICY every_tenant ON outbox TO hango_system USING (true) WITH CHECK (true);
CREATE POLICY every_tenant ON idempotency TO hango_system USING (true) WITH CHECK (true);

GRANT INSERT ON outbox TO hango_api;
GRANT SELECT, INSERT, UPDATE, DELETE ON outbox TO hango_system;
GRANT SELECT, INSERT, UPDATE ON idempotency TO hango_api;
GRANT SELECT, DELETE ON idempotency TO hango_system;
