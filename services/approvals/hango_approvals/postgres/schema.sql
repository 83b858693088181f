CREATE FUNCTION public.refuse_to_change_audit() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'audit rows are never changed' USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE FUNCTION public.refuse_to_delete_audit() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM audit_checkpoints c WHERE c.tenant_id = OLD.tenant_id AND c.seq >= OLD.seq) THEN
        RAISE EXCEPTION 'audit rows are deleted behind a checkpoint alone' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN OLD;
END
$$;

CREATE TABLE public.api_keys (
    id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    user_id uuid NOT NULL,
    name text NOT NULL,
    prefix text NOT NULL,
    secret_sha256 bytea NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    last_used_at timestamp with time zone,
    read_only boolean DEFAULT false NOT NULL,
    CONSTRAINT api_keys_secret_sha256_check CHECK ((octet_length(secret_sha256) = 32))
);

ALTER TABLE ONLY public.api_keys FORCE ROW LEVEL SECURITY;

CREATE TABLE public.audit_checkpoints (
    tenant_id uuid NOT NULL,
    seq bigint NOT NULL,
    hash text NOT NULL,
    at timestamp with time zone NOT NULL,
    signature text NOT NULL,
    public_key text NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

ALTER TABLE ONLY public.audit_checkpoints FORCE ROW LEVEL SECURITY;

CREATE TABLE public.audit_events (
    tenant_id uuid NOT NULL,
    seq bigint NOT NULL,
    id uuid NOT NULL,
    at timestamp with time zone NOT NULL,
    actor_kind text NOT NULL,
    actor_id uuid,
    action text NOT NULL,
    target_kind text NOT NULL,
    target_id text NOT NULL,
    run_id text,
    outcome text NOT NULL,
    detail text NOT NULL,
    trace_id text NOT NULL,
    prev_hash text NOT NULL,
    hash text NOT NULL,
    CONSTRAINT audit_events_actor_kind_check CHECK ((actor_kind = ANY (ARRAY['user'::text, 'system'::text]))),
    CONSTRAINT audit_events_check CHECK (((actor_kind = 'user'::text) = (actor_id IS NOT NULL))),
    CONSTRAINT audit_events_outcome_check CHECK ((outcome = ANY (ARRAY['ok'::text, 'denied'::text, 'error'::text]))),
    CONSTRAINT audit_events_seq_check CHECK ((seq > 0))
);

ALTER TABLE ONLY public.audit_events FORCE ROW LEVEL SECURITY;

CREATE TABLE public.audit_heads (
    tenant_id uuid NOT NULL,
    seq bigint NOT NULL,
    hash text NOT NULL
);

ALTER TABLE ONLY public.audit_heads FORCE ROW LEVEL SECURITY;

CREATE TABLE public.idempotency (
    tenant_id uuid NOT NULL,
    user_id uuid NOT NULL,
    route text NOT NULL,
    key text NOT NULL,
    request_digest bytea NOT NULL,
    suspension_id uuid NOT NULL,
    resume_event_id uuid NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

ALTER TABLE ONLY public.idempotency FORCE ROW LEVEL SECURITY;

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

CREATE TABLE public.pending_approvals (
    id uuid NOT NULL,
    suspension_id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    "position" integer NOT NULL,
    turn integer NOT NULL,
    subagent_path text NOT NULL,
    call_index integer NOT NULL,
    entry integer NOT NULL,
    tool_call_id text NOT NULL,
    tool_name text NOT NULL,
    kind text NOT NULL,
    arguments_raw bytea NOT NULL,
    arguments_sha256 text NOT NULL,
    allowed_decisions text[] NOT NULL,
    rule json NOT NULL,
    parameters json NOT NULL,
    input bytea,
    subagent_call_id text,
    state text NOT NULL,
    decision text,
    decision_args_raw bytea,
    decision_args_sha256 text,
    decision_message text,
    decision_value bytea,
    decided_by uuid,
    decided_at timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    execution_state text DEFAULT 'none'::text NOT NULL,
    execution_at timestamp with time zone,
    CONSTRAINT decided_by_somebody CHECK ((num_nulls(decision, decided_by, decided_at) =
CASE
    WHEN (state = 'decided'::text) THEN 0
    ELSE 3
END)),
    CONSTRAINT edited_by_arguments CHECK ((num_nulls(decision_args_raw, decision_args_sha256) =
CASE
    WHEN (NOT (decision IS DISTINCT FROM 'edit'::text)) THEN 0
    ELSE 2
END)),
    CONSTRAINT pending_approvals_arguments_sha256_check CHECK ((arguments_sha256 ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT pending_approvals_decision_args_sha256_check CHECK ((decision_args_sha256 ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT pending_approvals_decision_check CHECK ((decision = ANY (ARRAY['approve'::text, 'edit'::text, 'reject'::text, 'respond'::text]))),
    CONSTRAINT pending_approvals_execution_state_check CHECK ((execution_state = ANY (ARRAY['none'::text, 'started'::text, 'succeeded'::text, 'failed'::text, 'unknown'::text, 'skipped'::text]))),
    CONSTRAINT pending_approvals_kind_check CHECK ((kind = ANY (ARRAY['tool_call'::text, 'input'::text]))),
    CONSTRAINT pending_approvals_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'decided'::text, 'expired'::text, 'withdrawn'::text])))
);

ALTER TABLE ONLY public.pending_approvals FORCE ROW LEVEL SECURITY;

CREATE TABLE public.schema_migrations (
    version integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

CREATE TABLE public.suspensions (
    id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    gen integer NOT NULL,
    turn integer,
    requested_by uuid,
    agent text,
    agent_version integer,
    batch_sha256 bytea,
    state text NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    expires_at timestamp with time zone,
    closed_at timestamp with time zone,
    closed_by uuid,
    traceparent text DEFAULT ''::text NOT NULL,
    CONSTRAINT closed_or_pending CHECK (((state = 'pending'::text) = (closed_at IS NULL))),
    CONSTRAINT opened_or_tombstone CHECK (
CASE
    WHEN (batch_sha256 IS NULL) THEN (state = 'withdrawn'::text)
    ELSE (num_nulls(turn, requested_by, agent, agent_version, expires_at) = 0)
END),
    CONSTRAINT suspensions_gen_check CHECK ((gen > 0)),
    CONSTRAINT suspensions_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'decided'::text, 'expired'::text, 'withdrawn'::text])))
);

ALTER TABLE ONLY public.suspensions FORCE ROW LEVEL SECURITY;

CREATE TABLE public.tenant_keys (
    tenant_id uuid NOT NULL,
    wrapped bytea NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

ALTER TABLE ONLY public.tenant_keys FORCE ROW LEVEL SECURITY;

CREATE TABLE public.tenants (
    id uuid NOT NULL,
    name text NOT NULL,
    require_second_party boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT tenants_name_check CHECK ((name ~ '^[a-z0-9-]{1,63}$'::text))
);

ALTER TABLE ONLY public.tenants FORCE ROW LEVEL SECURITY;

CREATE TABLE public.users (
    id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    name text NOT NULL,
    role text NOT NULL,
    disabled boolean DEFAULT false NOT NULL,
    subject text,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT users_role_check CHECK ((role = ANY (ARRAY['member'::text, 'admin'::text, 'owner'::text])))
);

ALTER TABLE ONLY public.users FORCE ROW LEVEL SECURITY;

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_secret_sha256_key UNIQUE (secret_sha256);

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_tenant_id_id_key UNIQUE (tenant_id, id);

ALTER TABLE ONLY public.audit_checkpoints
    ADD CONSTRAINT audit_checkpoints_pkey PRIMARY KEY (tenant_id, seq);

ALTER TABLE ONLY public.audit_events
    ADD CONSTRAINT audit_events_pkey PRIMARY KEY (tenant_id, seq);

ALTER TABLE ONLY public.audit_events
    ADD CONSTRAINT audit_events_tenant_id_id_key UNIQUE (tenant_id, id);

ALTER TABLE ONLY public.audit_heads
    ADD CONSTRAINT audit_heads_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY public.idempotency
    ADD CONSTRAINT idempotency_pkey PRIMARY KEY (tenant_id, user_id, route, key);

ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.pending_approvals
    ADD CONSTRAINT pending_approvals_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.pending_approvals
    ADD CONSTRAINT pending_approvals_suspension_id_subagent_path_call_index_en_key UNIQUE (suspension_id, subagent_path, call_index, entry);

ALTER TABLE ONLY public.schema_migrations
    ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY public.suspensions
    ADD CONSTRAINT suspensions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.suspensions
    ADD CONSTRAINT suspensions_run_id_gen_key UNIQUE (run_id, gen);

ALTER TABLE ONLY public.tenant_keys
    ADD CONSTRAINT tenant_keys_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY public.tenants
    ADD CONSTRAINT tenants_name_key UNIQUE (name);

ALTER TABLE ONLY public.tenants
    ADD CONSTRAINT tenants_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_tenant_id_id_key UNIQUE (tenant_id, id);

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_tenant_id_name_key UNIQUE (tenant_id, name);

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_tenant_id_subject_key UNIQUE (tenant_id, subject);

CREATE INDEX audit_events_by_run ON public.audit_events USING btree (tenant_id, run_id, seq);

CREATE INDEX audit_events_by_target ON public.audit_events USING btree (tenant_id, target_id, seq);

CREATE INDEX idempotency_by_age ON public.idempotency USING btree (created_at);

CREATE INDEX outbox_due ON public.outbox USING btree (leased_until) WHERE ((published_at IS NULL) AND (dead_at IS NULL));

CREATE INDEX outbox_published ON public.outbox USING btree (published_at) WHERE (published_at IS NOT NULL);

CREATE INDEX pending_approvals_by_run ON public.pending_approvals USING btree (tenant_id, run_id);

CREATE INDEX pending_approvals_queue ON public.pending_approvals USING btree (tenant_id, state, created_at, id);

CREATE INDEX pending_approvals_waiting ON public.pending_approvals USING btree (tool_name) WHERE (state = 'pending'::text);

CREATE INDEX suspensions_pending ON public.suspensions USING btree (expires_at, id) WHERE (state = 'pending'::text);

CREATE TRIGGER audit_checkpoints_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.audit_checkpoints FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_to_change_audit();

CREATE TRIGGER audit_events_append_only BEFORE UPDATE OR TRUNCATE ON public.audit_events FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_to_change_audit();

CREATE TRIGGER audit_events_pruned BEFORE DELETE ON public.audit_events FOR EACH ROW EXECUTE FUNCTION public.refuse_to_delete_audit();

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES public.users(tenant_id, id);

ALTER TABLE ONLY public.pending_approvals
    ADD CONSTRAINT pending_approvals_suspension_id_fkey FOREIGN KEY (suspension_id) REFERENCES public.suspensions(id);

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenants(id);

ALTER TABLE public.api_keys ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.audit_checkpoints ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.audit_events ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.audit_heads ENABLE ROW LEVEL SECURITY;

CREATE POLICY every_tenant ON public.api_keys TO hango_system USING (true) WITH CHECK (true);

CREATE POLICY every_tenant ON public.audit_checkpoints TO hango_system USING (true) WITH CHECK (true);

CREATE POLICY every_tenant ON public.audit_events TO hango_system USING (true) WITH CHECK (true);

CREATE POLICY every_tenant ON public.audit_heads TO hango_system USING (true) WITH CHECK (true);

CREATE POLICY every_tenant ON public.idempotency TO hango_system USING (true) WITH CHECK (true);

CREATE POLICY every_tenant ON public.outbox TO hango_system USING (true) WITH CHECK (true);

CREATE POLICY every_tenant ON public.pending_approvals TO hango_system USING (true) WITH CHECK (true);

CREATE POLICY every_tenant ON public.suspensions TO hango_system USING (true) WITH CHECK (true);

CREATE POLICY every_tenant ON public.tenant_keys TO hango_system USING (true) WITH CHECK (true);

CREATE POLICY every_tenant ON public.tenants TO hango_system USING (true) WITH CHECK (true);

CREATE POLICY every_tenant ON public.users TO hango_system USING (true) WITH CHECK (true);

ALTER TABLE public.idempotency ENABLE ROW LEVEL SECURITY;

CREATE POLICY one_tenant ON public.api_keys TO hango_api USING ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid));

CREATE POLICY one_tenant ON public.audit_checkpoints TO hango_api USING ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid));

CREATE POLICY one_tenant ON public.audit_events TO hango_api USING ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid));

CREATE POLICY one_tenant ON public.audit_heads TO hango_api USING ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid));

CREATE POLICY one_tenant ON public.idempotency TO hango_api USING ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid));

CREATE POLICY one_tenant ON public.outbox TO hango_api USING ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid));

CREATE POLICY one_tenant ON public.pending_approvals TO hango_api USING ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid));

CREATE POLICY one_tenant ON public.suspensions TO hango_api USING ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid));

CREATE POLICY one_tenant ON public.tenant_keys TO hango_api USING ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid));

CREATE POLICY one_tenant ON public.tenants TO hango_api USING ((id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid));

CREATE POLICY one_tenant ON public.users TO hango_api USING ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid)) WITH CHECK ((tenant_id = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid));

ALTER TABLE public.outbox ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.pending_approvals ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.suspensions ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.tenant_keys ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.tenants ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.users ENABLE ROW LEVEL SECURITY;

GRANT SELECT,INSERT ON TABLE public.api_keys TO hango_api;
GRANT SELECT,INSERT ON TABLE public.api_keys TO hango_system;

GRANT UPDATE(revoked_at) ON TABLE public.api_keys TO hango_api;

GRANT UPDATE(last_used_at) ON TABLE public.api_keys TO hango_system;

GRANT SELECT ON TABLE public.audit_checkpoints TO hango_api;
GRANT SELECT,INSERT ON TABLE public.audit_checkpoints TO hango_system;

GRANT SELECT,INSERT ON TABLE public.audit_events TO hango_api;
GRANT SELECT,INSERT,DELETE ON TABLE public.audit_events TO hango_system;

GRANT SELECT,UPDATE ON TABLE public.audit_heads TO hango_api;
GRANT SELECT,INSERT,UPDATE ON TABLE public.audit_heads TO hango_system;

GRANT SELECT,INSERT,UPDATE ON TABLE public.idempotency TO hango_api;
GRANT SELECT,DELETE ON TABLE public.idempotency TO hango_system;

GRANT INSERT ON TABLE public.outbox TO hango_api;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.outbox TO hango_system;

GRANT SELECT,INSERT ON TABLE public.pending_approvals TO hango_api;
GRANT SELECT ON TABLE public.pending_approvals TO hango_system;

GRANT UPDATE(state) ON TABLE public.pending_approvals TO hango_api;
GRANT UPDATE(state) ON TABLE public.pending_approvals TO hango_system;

GRANT UPDATE(decision) ON TABLE public.pending_approvals TO hango_api;

GRANT UPDATE(decision_args_raw) ON TABLE public.pending_approvals TO hango_api;

GRANT UPDATE(decision_args_sha256) ON TABLE public.pending_approvals TO hango_api;

GRANT UPDATE(decision_message) ON TABLE public.pending_approvals TO hango_api;

GRANT UPDATE(decision_value) ON TABLE public.pending_approvals TO hango_api;

GRANT UPDATE(decided_by) ON TABLE public.pending_approvals TO hango_api;

GRANT UPDATE(decided_at) ON TABLE public.pending_approvals TO hango_api;

GRANT UPDATE(execution_state) ON TABLE public.pending_approvals TO hango_system;

GRANT UPDATE(execution_at) ON TABLE public.pending_approvals TO hango_system;

GRANT SELECT,INSERT ON TABLE public.suspensions TO hango_api;
GRANT SELECT ON TABLE public.suspensions TO hango_system;

GRANT UPDATE(state) ON TABLE public.suspensions TO hango_api;
GRANT UPDATE(state) ON TABLE public.suspensions TO hango_system;

GRANT UPDATE(closed_at) ON TABLE public.suspensions TO hango_api;
GRANT UPDATE(closed_at) ON TABLE public.suspensions TO hango_system;

GRANT UPDATE(closed_by) ON TABLE public.suspensions TO hango_api;
GRANT UPDATE(closed_by) ON TABLE public.suspensions TO hango_system;

GRANT SELECT,INSERT ON TABLE public.tenant_keys TO hango_api;
GRANT SELECT,INSERT,DELETE ON TABLE public.tenant_keys TO hango_system;

GRANT SELECT ON TABLE public.tenants TO hango_api;
GRANT SELECT,INSERT ON TABLE public.tenants TO hango_system;

GRANT UPDATE(require_second_party) ON TABLE public.tenants TO hango_api;

GRANT SELECT,INSERT ON TABLE public.users TO hango_api;
GRANT SELECT,INSERT ON TABLE public.users TO hango_system;

GRANT UPDATE(role) ON TABLE public.users TO hango_api;
GRANT UPDATE(role) ON TABLE public.users TO hango_system;

GRANT UPDATE(disabled) ON TABLE public.users TO hango_api;
