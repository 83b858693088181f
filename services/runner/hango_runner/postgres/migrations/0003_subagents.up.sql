-- One row a subagent at work: where its own loop stands. Its messages and calls carry its path.
CREATE TABLE subagent_calls (
    tenant_id uuid NOT NULL,
    run_id    uuid NOT NULL REFERENCES runs (id),
    path      text NOT NULL,
    name      text NOT NULL,
    turn      integer NOT NULL DEFAULT 0,
    next      text NOT NULL DEFAULT 'model' CHECK (next IN ('model', 'tools', 'done')),
    PRIMARY KEY (run_id, path)
);
ALTER TABLE subagent_calls ENABLE ROW LEVEL SECURITY;
ALTER TABLE subagent_calls FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON subagent_calls TO hango_api
    USING (tenant_id = nullif(current_setting('hango.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('hango.tenant', true), '')::uuid);
CREATE POLICY every_tenant ON subagent_calls TO hango_system USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE ON subagent_calls TO hango_api;

-- The `task` call that a message or a call belongs to, by the id that the model sees.
ALTER TABLE tool_calls ADD COLUMN subagent_call_id text;
ALTER TABLE messages ADD COLUMN subagent_call_id text;
