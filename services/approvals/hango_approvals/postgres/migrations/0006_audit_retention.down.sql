DROP TRIGGER audit_events_pruned ON audit_events;
DROP TRIGGER audit_events_append_only ON audit_events;
CREATE TRIGGER audit_events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_change_audit();
REVOKE DELETE ON audit_events FROM hango_system;
DROP TABLE audit_checkpoints;
DROP FUNCTION refuse_to_delete_audit;
