-- Suspensions and their approvals. Nothing refers to a tenant, an agent or a run by a foreign key that could delete:
-- what was decided outlives what it was about.
CREATE TABLE suspensions (
    id            uuid PRIMARY KEY,
    tenant_id     uuid NOT NULL,
    run_id        uuid NOT NULL,
    gen           integer NOT NULL CHECK (gen > 0),
    turn          integer,
    requested_by  uuid,
    agent         text,
    agent_version integer,
    batch_sha256  bytea,
    state         text NOT NULL CHECK (state IN ('pending', 'decided', 'expired', 'withdrawn')),
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at    timestamptz,
    closed_at     timestamptz,
    closed_by     uuid,
    traceparent   text NOT NULL DEFAULT '',
    UNIQUE (run_id, gen),
    -- Without a batch it is a tombstone: withdrawn before it was opened.
    CONSTRAINT opened_or_tombstone CHECK (
        CASE WHEN batch_sha256 IS NULL THEN state = 'withdrawn'
             ELSE num_nulls(turn, requested_by, agent, agent_version, expires_at) = 0 END
    ),
    CONSTRAINT closed_or_pending CHECK ((state = 'pending') = (closed_at IS NULL))
);
CREATE INDEX suspensions_pending ON suspensions (expires_at, id) WHERE state = 'pending';

CREATE TABLE pending_approvals (
    id                   uuid PRIMARY KEY,
    suspension_id        uuid NOT NULL REFERENCES suspensions,
    tenant_id            uuid NOT NULL,
    run_id               uuid NOT NULL,
    position             integer NOT NULL,
    turn                 integer NOT NULL,
    subagent_path        text NOT NULL,
    call_index           integer NOT NULL,
    entry                integer NOT NULL,
    tool_call_id         text NOT NULL,
    tool_name            text NOT NULL,
    kind                 text NOT NULL CHECK (kind IN ('tool_call', 'input')),
    arguments_raw        bytea NOT NULL,
    arguments_sha256     text NOT NULL CHECK (arguments_sha256 ~ '^[0-9a-f]{64}$'),
    allowed_decisions    text[] NOT NULL,
    -- `json` keeps the text as it came, and needs not be able to hold what `jsonb` cannot.
    rule                 json NOT NULL,
    parameters           json NOT NULL,
    input                bytea,
    subagent_call_id     text,
    state                text NOT NULL CHECK (state IN ('pending', 'decided', 'expired', 'withdrawn')),
    decision             text CHECK (decision IN ('approve', 'edit', 'reject', 'respond')),
    decision_args_raw    bytea,
    decision_args_sha256 text CHECK (decision_args_sha256 ~ '^[0-9a-f]{64}$'),
    decision_message     text,
    decision_value       bytea,
    decided_by           uuid,
    decided_at           timestamptz,
    created_at           timestamptz NOT NULL,
    execution_state      text NOT NULL DEFAULT 'none'
        CHECK (execution_state IN ('none', 'started', 'succeeded', 'failed', 'unknown', 'skipped')),
    execution_at         timestamptz,
    UNIQUE (suspension_id, subagent_path, call_index, entry),
    CONSTRAINT decided_by_somebody CHECK (
        num_nulls(decision, decided_by, decided_at) = CASE WHEN state = 'decided' THEN 0 ELSE 3 END
    ),
    CONSTRAINT edited_by_arguments CHECK (
        num_nulls(decision_args_raw, decision_args_sha256)
            = CASE WHEN decision IS NOT DISTINCT FROM 'edit' THEN 0 ELSE 2 END
    )
);
CREATE INDEX pending_approvals_queue ON pending_approvals (tenant_id, state, created_at, id);
CREATE INDEX pending_approvals_by_run ON pending_approvals (tenant_id, run_id);
CREATE INDEX pending_approvals_waiting ON pending_approvals (tool_name) WHERE state = 'pending';

ALTER TABLE suspensions ENABLE ROW LEVEL SECURITY;
ALTER TABLE suspensions FORCE ROW LEVEL SECURITY;
ALTER TABLE pending_approvals ENABLE ROW LEVEL SECURITY;
ALTER TABLE pending_approvals FORCE ROW LEVEL SECURITY;

CREATE POLICY one_tenant ON suspensions TO hango_api
    USING (tenant_id = nullif(current_setting('hango.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('hango.tenant', true), '')::uuid);
CREATE POLICY one_tenant ON pending_approvals TO hango_api
    USING (tenant_id = nullif(current_setting('hango.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('hango.tenant', true), '')::uuid);
CREATE POLICY every_tenant ON suspensions TO hango_system USING (true) WITH CHECK (true);
CREATE POLICY every_tenant ON pending_approvals TO hango_system USING (true) WITH CHECK (true);

GRANT SELECT, INSERT, UPDATE (state, closed_at, closed_by) ON suspensions TO hango_api;
GRANT SELECT, INSERT,
    UPDATE (state, decision, decision_args_raw, decision_args_sha256, decision_message, decision_value, decided_by,
            decided_at) ON pending_approvals TO hango_api;
-- Expiring, and taking reports: both over all tenants.
GRANT SELECT, UPDATE (state, closed_at, closed_by) ON suspensions TO hango_system;
GRANT SELECT, UPDATE (state, execution_state, execution_at) ON pending_approvals TO hango_system;
