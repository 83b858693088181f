DROP TABLE audit_heads;
DROP TABLE audit_events;
DROP FUNCTION refuse_to_change_audit();
