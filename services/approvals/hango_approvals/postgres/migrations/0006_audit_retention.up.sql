-- Where a chain begins whose oldest rows were pruned. Rows may be deleted up to such a place and no further; its
-- signature, which the database cannot make, is what verification asks for.
CREATE TABLE audit_checkpoints (
    tenant_id  uuid NOT NULL,
    seq        bigint NOT NULL,
    hash       text NOT NULL,
    at         timestamptz NOT NULL,  -- of the row
    signature  text NOT NULL,
    public_key text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, seq)
);

CREATE FUNCTION refuse_to_delete_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM audit_checkpoints c WHERE c.tenant_id = OLD.tenant_id AND c.seq >= OLD.seq) THEN
        RAISE EXCEPTION 'audit rows are deleted behind a checkpoint alone' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN OLD;
END
$$;

DROP TRIGGER audit_events_append_only ON audit_events;
CREATE TRIGGER audit_events_append_only BEFORE UPDATE OR TRUNCATE ON audit_events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_change_audit();
CREATE TRIGGER audit_events_pruned BEFORE DELETE ON audit_events
    FOR EACH ROW EXECUTE FUNCTION refuse_to_delete_audit();
CREATE TRIGGER audit_checkpoints_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_checkpoints
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_change_audit();

ALTER TABLE audit_checkpoints ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_checkpoints FORCE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON audit_checkpoints TO hango_api
    USING (tenant_id = nullif(current_setting('hango.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('hango.tenant', true), '')::uuid);
CREATE POLICY every_tenant ON audit_checkpoints TO hango_system USING (true) WITH CHECK (true);

GRANT SELECT ON audit_checkpoints TO hango_api;
GRANT SELECT, INSERT ON audit_checkpoints TO hango_system;
GRANT DELETE ON audit_events TO hango_system;
