-- The audit trail: append-only, one hash chain a tenant. `audit_heads` is where each chain ends, so that rows deleted
-- at the end are missed too; its row lock gives the numbers out one by one.
CREATE TABLE audit_events (
    tenant_id   uuid NOT NULL,
    seq         bigint NOT NULL CHECK (seq > 0),
    id          uuid NOT NULL,
    at          timestamptz NOT NULL,
    actor_kind  text NOT NULL CHECK (actor_kind IN ('user', 'system')),
    actor_id    uuid,
    action      text NOT NULL,
    target_kind text NOT NULL,
    target_id   text NOT NULL,
    run_id      text,
    outcome     text NOT NULL CHECK (outcome IN ('ok', 'denied', 'error')),
    detail      text NOT NULL,  -- JSON text; text, since its hash is over these very bytes
    trace_id    text NOT NULL,
    prev_hash   text NOT NULL,
    hash        text NOT NULL,
    PRIMARY KEY (tenant_id, seq),
    UNIQUE (tenant_id, id),
    CHECK ((actor_kind = 'user') = (actor_id IS NOT NULL))
);
CREATE INDEX audit_events_by_run ON audit_events (tenant_id, run_id, seq);
CREATE INDEX audit_events_by_target ON audit_events (tenant_id, target_id, seq);

CREATE TABLE audit_heads (
    tenant_id uuid PRIMARY KEY,
    seq       bigint NOT NULL,
    hash      text NOT NULL
);

CREATE FUNCTION refuse_to_change_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit rows are never changed' USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER audit_events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_change_audit();

ALTER TABLE audit_events ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_events FORCE ROW LEVEL SECURITY;
ALTER TABLE audit_heads ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_heads FORCE ROW LEVEL SECURITY;

CREATE POLICY one_tenant ON audit_events TO hango_api
    USING (tenant_id = nullif(current_setting('hango.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('hango.tenant', true), '')::uuid);
CREATE POLICY one_tenant ON audit_heads TO hango_api
    USING (tenant_id = nullif(current_setting('hango.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('hango.tenant', true), '')::uuid);
CREATE POLICY every_tenant ON audit_events TO hango_system USING (true) WITH CHECK (true);
CREATE POLICY every_tenant ON audit_heads TO hango_system USING (true) WITH CHECK (true);

GRANT SELECT, INSERT ON audit_events TO hango_api, hango_system;
GRANT SELECT, UPDATE ON audit_heads TO hango_api, hango_system;
GRANT INSERT ON audit_heads TO hango_system;
