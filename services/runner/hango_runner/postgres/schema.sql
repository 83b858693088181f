CREATE FUNCTION public.notify_queued() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM pg_notify('hango_runs', NEW.lane);
    RETURN NULL;
END
$$;

CREATE FUNCTION public.run_chain(of_tenant uuid, of_run uuid) RETURNS TABLE(run_id uuid, depth integer, last_seq bigint, turns integer)
    LANGUAGE sql STABLE
    AS $$
    WITH RECURSIVE chain AS (
        SELECT r.id, 0 AS depth, 9223372036854775807 AS last_seq, 2147483647 AS turns,
               r.forked_from, r.forked_seq, r.forked_turn
          FROM runs r WHERE r.tenant_id = of_tenant AND r.id = of_run
        UNION ALL
        SELECT r.id, c.depth + 1, c.forked_seq, c.forked_turn, r.forked_from, r.forked_seq, r.forked_turn
          FROM chain c JOIN runs r ON r.tenant_id = of_tenant AND r.id = c.forked_from
    )
    SELECT id, depth, last_seq, turns FROM chain
$$;

CREATE TABLE public.agents (
    tenant_id uuid NOT NULL,
    name text NOT NULL,
    version integer NOT NULL,
    spec json NOT NULL,
    spec_sha256 text NOT NULL,
    interrupt_on json NOT NULL,
    warnings text[] NOT NULL,
    created_by uuid NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    deleted_at timestamp with time zone
);

ALTER TABLE ONLY public.agents FORCE ROW LEVEL SECURITY;

CREATE TABLE public.checkpoints (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    run_id uuid NOT NULL,
    turn integer NOT NULL,
    next text NOT NULL,
    message_count bigint NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT checkpoints_next_check CHECK ((next = ANY (ARRAY['model'::text, 'tools'::text])))
);

ALTER TABLE ONLY public.checkpoints FORCE ROW LEVEL SECURITY;

CREATE TABLE public.files (
    tenant_id uuid NOT NULL,
    scope text NOT NULL,
    path text NOT NULL,
    version bigint NOT NULL,
    content text,
    run_id uuid NOT NULL,
    turn integer NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

ALTER TABLE ONLY public.files FORCE ROW LEVEL SECURITY;

ALTER TABLE public.files ALTER COLUMN version ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.files_version_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.idempotency (
    tenant_id uuid NOT NULL,
    user_id uuid NOT NULL,
    route text NOT NULL,
    key text NOT NULL,
    digest bytea NOT NULL,
    answer bytea,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

ALTER TABLE ONLY public.idempotency FORCE ROW LEVEL SECURITY;

CREATE TABLE public.messages (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    seq bigint NOT NULL,
    subagent_path text DEFAULT ''::text NOT NULL,
    role text NOT NULL,
    content json NOT NULL,
    tool_calls json,
    tool_call_id text,
    tool_name text,
    is_error boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    subagent_call_id text,
    CONSTRAINT messages_role_check CHECK ((role = ANY (ARRAY['system'::text, 'user'::text, 'assistant'::text, 'tool'::text])))
);

ALTER TABLE ONLY public.messages FORCE ROW LEVEL SECURITY;

CREATE TABLE public.outbox (
    id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    kind text NOT NULL,
    key text NOT NULL,
    payload bytea NOT NULL,
    traceparent text NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    leased_until timestamp with time zone NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    last_error text,
    published_at timestamp with time zone,
    dead_at timestamp with time zone
);

ALTER TABLE ONLY public.outbox FORCE ROW LEVEL SECURITY;

CREATE TABLE public.run_events (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    seq bigint NOT NULL,
    type text NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    data json NOT NULL
);

ALTER TABLE ONLY public.run_events FORCE ROW LEVEL SECURITY;

CREATE TABLE public.runs (
    id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    tenant text NOT NULL,
    agent text NOT NULL,
    agent_version integer NOT NULL,
    thread_id text,
    lane text NOT NULL,
    state text NOT NULL,
    metadata json NOT NULL,
    turn integer DEFAULT 0 NOT NULL,
    next text DEFAULT 'model'::text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    lease_epoch bigint DEFAULT 0 NOT NULL,
    lease_owner text,
    lease_until timestamp with time zone,
    next_event_seq bigint DEFAULT 1 NOT NULL,
    next_message_seq bigint DEFAULT 1 NOT NULL,
    model_calls integer DEFAULT 0 NOT NULL,
    input_tokens bigint DEFAULT 0 NOT NULL,
    output_tokens bigint DEFAULT 0 NOT NULL,
    output json,
    failure_reason text,
    failure_message text,
    forked_from uuid,
    traceparent text NOT NULL,
    created_by uuid NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    queued_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    gen integer DEFAULT 0 NOT NULL,
    suspension_id uuid,
    suspension_opened_at timestamp with time zone,
    awaiting_since timestamp with time zone,
    forked_seq bigint,
    forked_turn integer,
    replay json,
    CONSTRAINT runs_awaiting CHECK (((state <> 'awaiting_approval'::text) OR (suspension_id IS NOT NULL))),
    CONSTRAINT runs_forked CHECK ((((forked_from IS NULL) = (forked_seq IS NULL)) AND ((forked_from IS NULL) = (forked_turn IS NULL)) AND ((replay IS NULL) OR (forked_from IS NOT NULL)))),
    CONSTRAINT runs_next CHECK ((next = ANY (ARRAY['model'::text, 'tools'::text]))),
    CONSTRAINT runs_state CHECK ((state = ANY (ARRAY['queued'::text, 'running'::text, 'awaiting_approval'::text, 'succeeded'::text, 'failed'::text, 'cancelled'::text])))
);

ALTER TABLE ONLY public.runs FORCE ROW LEVEL SECURITY;

CREATE TABLE public.schema_migrations (
    version integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

CREATE TABLE public.subagent_calls (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    path text NOT NULL,
    name text NOT NULL,
    turn integer DEFAULT 0 NOT NULL,
    next text DEFAULT 'model'::text NOT NULL,
    CONSTRAINT subagent_calls_next_check CHECK ((next = ANY (ARRAY['model'::text, 'tools'::text, 'done'::text])))
);

ALTER TABLE ONLY public.subagent_calls FORCE ROW LEVEL SECURITY;

CREATE TABLE public.tenant_keys (
    tenant_id uuid NOT NULL,
    wrapped bytea NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

ALTER TABLE ONLY public.tenant_keys FORCE ROW LEVEL SECURITY;

CREATE TABLE public.threads (
    tenant_id uuid NOT NULL,
    id text NOT NULL,
    agent text NOT NULL,
    created_by uuid NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

ALTER TABLE ONLY public.threads FORCE ROW LEVEL SECURITY;

CREATE TABLE public.tool_calls (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    subagent_path text DEFAULT ''::text NOT NULL,
    turn integer NOT NULL,
    call_index integer NOT NULL,
    entry integer DEFAULT 0 NOT NULL,
    tool_call_id text NOT NULL,
    tool_name text NOT NULL,
    arguments_raw bytea NOT NULL,
    arguments_sha256 text NOT NULL,
    ruling text NOT NULL,
    kind text DEFAULT 'tool_call'::text NOT NULL,
    rule json,
    allowed_decisions text[],
    parameters json,
    input json,
    approval_id uuid,
    decision text,
    decided_raw bytea,
    decided_sha256 text,
    decision_message text,
    decision_value bytea,
    decided_by uuid,
    exec_state text DEFAULT 'none'::text NOT NULL,
    exec_epoch bigint,
    effect text,
    result json,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    subagent_call_id text,
    CONSTRAINT tool_calls_decision_check CHECK ((decision = ANY (ARRAY['approve'::text, 'edit'::text, 'reject'::text, 'respond'::text]))),
    CONSTRAINT tool_calls_exec_state_check CHECK ((exec_state = ANY (ARRAY['none'::text, 'started'::text, 'succeeded'::text, 'failed'::text, 'unknown'::text, 'skipped'::text]))),
    CONSTRAINT tool_calls_kind_check CHECK ((kind = ANY (ARRAY['tool_call'::text, 'input'::text]))),
    CONSTRAINT tool_calls_ruling_check CHECK ((ruling = ANY (ARRAY['free'::text, 'gated'::text, 'bad'::text])))
);

ALTER TABLE ONLY public.tool_calls FORCE ROW LEVEL SECURITY;

ALTER TABLE ONLY public.agents
    ADD CONSTRAINT agents_pkey PRIMARY KEY (tenant_id, name, version);

ALTER TABLE ONLY public.checkpoints
    ADD CONSTRAINT checkpoints_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.files
    ADD CONSTRAINT files_pkey PRIMARY KEY (tenant_id, scope, path, version);

ALTER TABLE ONLY public.idempotency
    ADD CONSTRAINT idempotency_pkey PRIMARY KEY (tenant_id, user_id, route, key);

ALTER TABLE ONLY public.messages
    ADD CONSTRAINT messages_pkey PRIMARY KEY (run_id, seq);

ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.run_events
    ADD CONSTRAINT run_events_pkey PRIMARY KEY (run_id, seq);

ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.schema_migrations
    ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY public.subagent_calls
    ADD CONSTRAINT subagent_calls_pkey PRIMARY KEY (run_id, path);

ALTER TABLE ONLY public.tenant_keys
    ADD CONSTRAINT tenant_keys_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY public.threads
    ADD CONSTRAINT threads_pkey PRIMARY KEY (tenant_id, id);

ALTER TABLE ONLY public.tool_calls
    ADD CONSTRAINT tool_calls_pkey PRIMARY KEY (run_id, subagent_path, turn, call_index);

CREATE INDEX checkpoints_of_run ON public.checkpoints USING btree (run_id, message_count);

CREATE INDEX idempotency_age ON public.idempotency USING btree (created_at);

CREATE INDEX outbox_due ON public.outbox USING btree (leased_until) WHERE ((published_at IS NULL) AND (dead_at IS NULL));

CREATE INDEX outbox_published ON public.outbox USING btree (published_at) WHERE (published_at IS NOT NULL);

CREATE INDEX runs_awaiting ON public.runs USING btree (awaiting_since) WHERE (state = 'awaiting_approval'::text);

CREATE INDEX runs_leases ON public.runs USING btree (lease_until) WHERE (state = 'running'::text);

CREATE UNIQUE INDEX runs_live_thread ON public.runs USING btree (tenant_id, thread_id) WHERE ((thread_id IS NOT NULL) AND (state <> ALL (ARRAY['succeeded'::text, 'failed'::text, 'cancelled'::text])));

CREATE INDEX runs_newest ON public.runs USING btree (tenant_id, created_at DESC, id DESC);

CREATE INDEX runs_of_creator ON public.runs USING btree (tenant_id, created_by, created_at DESC, id DESC);

CREATE INDEX runs_of_thread ON public.runs USING btree (tenant_id, thread_id, created_at) WHERE (thread_id IS NOT NULL);

CREATE INDEX runs_queue ON public.runs USING btree (lane, queued_at) WHERE (state = 'queued'::text);

CREATE INDEX threads_newest ON public.threads USING btree (tenant_id, created_at DESC, id DESC);

CREATE INDEX threads_of_creator ON public.threads USING btree (tenant_id, created_by, created_at DESC, id DESC);

CREATE INDEX tool_calls_started ON public.tool_calls USING btree (run_id) WHERE (exec_state = 'started'::text);

CREATE TRIGGER runs_queued AFTER INSERT OR UPDATE OF state ON public.runs FOR EACH ROW WHEN ((new.state = 'queued'::text)) EXECUTE FUNCTION public.notify_queued();

ALTER TABLE ONLY public.checkpoints
    ADD CONSTRAINT checkpoints_run_id_fkey FOREIGN KEY (run_id) REFERENCES public.runs(id);

ALTER TABLE ONLY public.files
    ADD CONSTRAINT files_run_id_fkey FOREIGN KEY (run_id) REFERENCES public.runs(id);

ALTER TABLE ONLY public.messages
    ADD CONSTRAINT messages_run_id_fkey FOREIGN KEY (run_id) REFERENCES public.runs(id);

ALTER TABLE ONLY public.run_events
    ADD CONSTRAINT run_events_run_id_fkey FOREIGN KEY (run_id) REFERENCES public.runs(id);

ALTER TABLE ONLY public.subagent_calls
    ADD CONSTRAINT subagent_calls_run_id_fkey FOREIGN KEY (run_id) REFERENCES public.runs(id);

ALTER TABLE ONLY public.tool_calls
    ADD CONSTRAINT tool_calls_run_id_fkey FOREIGN KEY (run_id) REFERENCES public.runs(id);

ALTER TABLE public.agents ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.checkpoints ENABLE ROW LEVEL SECURITY;

CREATE POLICY every_tenant ON public.agents TO hango_system USING (true) WITH CHECK (true);

CREATE POLICY every_tenant ON public.checkpoints TO hango_system USING (true) WITH CHECK (true);

CREATE POLICY every_tenant ON public.files TO hango_system USING (true) WITH CHECK (true);

CREATE POLICY every_tenant ON public.idempotency TO hango_system USING (true) WITH CHECK (true);

CREATE POLICY every_tenant ON public.messages TO hango_system USING (true) WITH CHECK (true);

CREATE POLICY every_tenant ON public.outbox TO hango_system USING (true) WITH CHECK (true);

CREATE POLICY every_tenant ON public.run_events TO hango_system USING (true) WITH CHECK (true);

CREATE POLICY every_tenant ON public.runs TO hango_system USING (true) WITH CHECK (true);

CREATE POLICY every_tenant ON public.subagent_calls TO hango_system USING (true) WITH CHECK (true);

CREATE POLICY every_tenant ON public.tenant_keys TO hango_system USING (true) WITH CHECK (true);

CREATE POLICY every_tenant ON public.threads TO hango_system USING (true) WITH CHECK (true);

CREATE POLICY every_tenant ON public.tool_calls TO hango_system USING (true) WITH CHECK (true);

ALTER TABLE public.files ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.idempotency ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.messages ENABLE ROW LEVEL SECURITY;

CREATE POLICY one_tenant ON public.tenant_keys TO hango_api USING ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid));

ALTER TABLE public.outbox ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.run_events ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.runs ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.subagent_calls ENABLE ROW LEVEL SECURITY;

CREATE POLICY tenant ON public.agents TO hango_api USING ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid));

CREATE POLICY tenant ON public.checkpoints TO hango_api USING ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid));

CREATE POLICY tenant ON public.files TO hango_api USING ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid));

CREATE POLICY tenant ON public.idempotency TO hango_api USING ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid));

CREATE POLICY tenant ON public.messages TO hango_api USING ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid));

CREATE POLICY tenant ON public.outbox TO hango_api USING ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid));

CREATE POLICY tenant ON public.run_events TO hango_api USING ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid));

CREATE POLICY tenant ON public.runs TO hango_api USING ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid));

CREATE POLICY tenant ON public.subagent_calls TO hango_api USING ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid));

CREATE POLICY tenant ON public.threads TO hango_api USING ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid));

CREATE POLICY tenant ON public.tool_calls TO hango_api USING ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid));

ALTER TABLE public.tenant_keys ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.threads ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.tool_calls ENABLE ROW LEVEL SECURITY;

GRANT SELECT,INSERT ON TABLE public.agents TO hango_api;
GRANT SELECT ON TABLE public.agents TO hango_system;

GRANT UPDATE(deleted_at) ON TABLE public.agents TO hango_api;

GRANT SELECT,INSERT ON TABLE public.checkpoints TO hango_api;

GRANT SELECT,INSERT ON TABLE public.files TO hango_api;

GRANT SELECT,INSERT,UPDATE ON TABLE public.idempotency TO hango_api;
GRANT SELECT,DELETE ON TABLE public.idempotency TO hango_system;

GRANT SELECT,INSERT ON TABLE public.messages TO hango_api;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.outbox TO hango_api;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.outbox TO hango_system;

GRANT SELECT,INSERT ON TABLE public.run_events TO hango_api;
GRANT INSERT ON TABLE public.run_events TO hango_system;

GRANT SELECT,INSERT,UPDATE ON TABLE public.runs TO hango_api;
GRANT SELECT,UPDATE ON TABLE public.runs TO hango_system;

GRANT SELECT,INSERT,UPDATE ON TABLE public.subagent_calls TO hango_api;

GRANT SELECT,INSERT ON TABLE public.tenant_keys TO hango_api;
GRANT SELECT,INSERT,DELETE ON TABLE public.tenant_keys TO hango_system;

GRANT SELECT,INSERT ON TABLE public.threads TO hango_api;

GRANT SELECT,INSERT,UPDATE ON TABLE public.tool_calls TO hango_api;
GRANT SELECT,UPDATE ON TABLE public.tool_calls TO hango_system;
