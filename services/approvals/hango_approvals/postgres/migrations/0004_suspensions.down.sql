-- The audit trail stays: it says what was decided, and by whom.
DROP TABLE pending_approvals;
DROP TABLE suspensions;
-- These records answer from the suspensions.
TRUNCATE idempotency;
