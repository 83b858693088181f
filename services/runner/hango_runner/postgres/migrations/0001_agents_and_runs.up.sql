-- Roles belong to the whole server, so another database's migration may make them at the same moment.
DO $$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY['hango_api', 'hango_system'] LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role_name) THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
            END IF;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;
        END;
        IF NOT pg_has_role(current_user, role_name, 'SET') THEN
            EXECUTE format('GRANT %I TO CURRENT_USER WITH INHERIT FALSE, SET TRUE', role_name);
        END IF;
    END LOOP;
END
$$;

CREATE TABLE agents (
    tenant_id      uuid NOT NULL,
    name           text NOT NULL,
    version        integer NOT NULL,
    spec           json NOT NULL,
    spec_sha256    text NOT NULL,
    interrupt_on   json NOT NULL,
    warnings       text[] NOT NULL,
    created_by     uuid NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    deleted_at     timestamptz,
    PRIMARY KEY (tenant_id, name, version)
);

CREATE TABLE threads (
    tenant_id  uuid NOT NULL,
    id         text NOT NULL,
    agent      text NOT NULL,
    created_by uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, id)
);

CREATE TABLE runs (
    id               uuid PRIMARY KEY,
    tenant_id        uuid NOT NULL,
    tenant           text NOT NULL,
    agent            text NOT NULL,
    agent_version    integer NOT NULL,
    thread_id        text,
    lane             text NOT NULL,
    state            text NOT NULL,
    metadata         json NOT NULL,
    turn             integer NOT NULL DEFAULT 0,
    next             text NOT NULL DEFAULT 'model' CONSTRAINT runs_next CHECK (next IN ('model', 'tools')),
    attempts         integer NOT NULL DEFAULT 0,
    lease_epoch      bigint NOT NULL DEFAULT 0,
    lease_owner      text,
    lease_until      timestamptz,
    next_event_seq   bigint NOT NULL DEFAULT 1,
    next_message_seq bigint NOT NULL DEFAULT 1,
    model_calls      integer NOT NULL DEFAULT 0,
    input_tokens     bigint NOT NULL DEFAULT 0,
    output_tokens    bigint NOT NULL DEFAULT 0,
    output           json,
    failure_reason   text,
    failure_message  text,
    forked_from      uuid,
    traceparent      text NOT NULL,
    created_by       uuid NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    queued_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at       timestamptz,
    finished_at      timestamptz,
    CONSTRAINT runs_state CHECK (state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled'))
);
CREATE UNIQUE INDEX runs_live_thread ON runs (tenant_id, thread_id)
    WHERE thread_id IS NOT NULL AND state NOT IN ('succeeded', 'failed', 'cancelled');
CREATE INDEX runs_queue ON runs (lane, queued_at) WHERE state = 'queued';
CREATE INDEX runs_leases ON runs (lease_until) WHERE state = 'running';
CREATE INDEX runs_newest ON runs (tenant_id, created_at DESC, id DESC);
CREATE INDEX runs_of_creator ON runs (tenant_id, created_by, created_at DESC, id DESC);
CREATE INDEX runs_of_thread ON runs (tenant_id, thread_id, created_at) WHERE thread_id IS NOT NULL;

-- Whoever makes a run ready to be worked on wakes the workers, whichever statement it was.
CREATE FUNCTION notify_queued() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('hango_runs', NEW.lane);
    RETURN NULL;
END
$$;
CREATE TRIGGER runs_queued AFTER INSERT OR UPDATE OF state ON runs
    FOR EACH ROW WHEN (NEW.state = 'queued') EXECUTE FUNCTION notify_queued();

-- Append-only: see the grants.
CREATE TABLE messages (
    tenant_id     uuid NOT NULL,
    run_id        uuid NOT NULL REFERENCES runs (id),
    seq           bigint NOT NULL,
    subagent_path text NOT NULL DEFAULT '',
    role          text NOT NULL CHECK (role IN ('system', 'user', 'assistant', 'tool')),
    content       json NOT NULL,
    tool_calls    json,
    tool_call_id  text,
    tool_name     text,
    is_error      boolean NOT NULL DEFAULT false,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (run_id, seq)
);

-- One row tells a call's whole story: how it was asked for, ruled, decided and executed.
CREATE TABLE tool_calls (
    tenant_id         uuid NOT NULL,
    run_id            uuid NOT NULL REFERENCES runs (id),
    subagent_path     text NOT NULL DEFAULT '',
    turn              integer NOT NULL,
    call_index        integer NOT NULL,
    entry             integer NOT NULL DEFAULT 0,
    tool_call_id      text NOT NULL,
    tool_name         text NOT NULL,
    arguments_raw     bytea NOT NULL,
    arguments_sha256  text NOT NULL,
    ruling            text NOT NULL CHECK (ruling IN ('free', 'gated', 'bad')),
    kind              text NOT NULL DEFAULT 'tool_call' CHECK (kind IN ('tool_call', 'input')),
    rule              json,
    allowed_decisions text[],
    parameters        json,
    input             json,
    approval_id       uuid,
    decision          text CHECK (decision IN ('approve', 'edit', 'reject', 'respond')),
    decided_raw       bytea,
    decided_sha256    text,
    decision_message  text,
    decision_value    bytea,
    decided_by        uuid,
    exec_state        text NOT NULL DEFAULT 'none'
        CHECK (exec_state IN ('none', 'started', 'succeeded', 'failed', 'unknown', 'skipped')),
    exec_epoch        bigint,
    effect            text,
    result            json,
    started_at        timestamptz,
    finished_at       timestamptz,
    PRIMARY KEY (run_id, subagent_path, turn, call_index)
);
CREATE INDEX tool_calls_started ON tool_calls (run_id) WHERE exec_state = 'started';

CREATE TABLE checkpoints (
    tenant_id     uuid NOT NULL,
    id            uuid PRIMARY KEY,
    run_id        uuid NOT NULL REFERENCES runs (id),
    turn          integer NOT NULL,
    next          text NOT NULL CHECK (next IN ('model', 'tools')),
    message_count bigint NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX checkpoints_of_run ON checkpoints (run_id, created_at);

-- Every version of every file; the newest one counts, and one without content means that there is no file.
CREATE TABLE files (
    tenant_id  uuid NOT NULL,
    scope      text NOT NULL,
    path       text NOT NULL,
    version    bigint GENERATED ALWAYS AS IDENTITY,
    content    text,
    run_id     uuid NOT NULL REFERENCES runs (id),
    turn       integer NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, scope, path, version)
);

CREATE TABLE run_events (
    tenant_id uuid NOT NULL,
    run_id    uuid NOT NULL REFERENCES runs (id),
    seq       bigint NOT NULL,
    type      text NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    data      json NOT NULL,
    PRIMARY KEY (run_id, seq)
);

CREATE TABLE idempotency (
    tenant_id  uuid NOT NULL,
    user_id    uuid NOT NULL,
    route      text NOT NULL,
    key        text NOT NULL,
    digest     bytea NOT NULL,
    answer     bytea,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, user_id, route, key)
);
CREATE INDEX idempotency_age ON idempotency (created_at);

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

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['agents', 'threads', 'runs', 'messages', 'tool_calls', 'checkpoints',
                                'files', 'run_events', 'idempotency', 'outbox'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format($p$CREATE POLICY tenant ON %I TO hango_api
            USING (tenant_id = nullif(current_setting('hango.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('hango.tenant', true), '')::uuid)$p$, name);
        EXECUTE format('CREATE POLICY every_tenant ON %I TO hango_system USING (true) WITH CHECK (true)', name);
    END LOOP;
END
$$;

GRANT SELECT, INSERT ON agents, threads, messages, checkpoints, files, run_events, outbox TO hango_api;
GRANT UPDATE (deleted_at) ON agents TO hango_api;
GRANT SELECT, INSERT, UPDATE ON runs, tool_calls, idempotency TO hango_api;
GRANT UPDATE, DELETE ON outbox TO hango_api;
GRANT SELECT ON agents, runs, tool_calls TO hango_system;
GRANT UPDATE ON runs, tool_calls TO hango_system;
GRANT INSERT ON run_events TO hango_system;
GRANT SELECT, INSERT, UPDATE, DELETE ON outbox TO hango_system;
GRANT SELECT, DELETE ON idempotency TO hango_system;
