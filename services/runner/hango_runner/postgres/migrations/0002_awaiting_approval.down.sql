-- A run that waits for people cannot be told without this migration: it ends here, and its story says so.
SET LOCAL ROLE hango_system;

WITH ended AS (
    UPDATE runs SET state = 'failed', failure_reason = 'rolled_back',
                    failure_message = 'the release that paused this run was rolled back',
                    finished_at = clock_timestamp(), lease_epoch = lease_epoch + 1,
                    next_event_seq = next_event_seq + 1
     WHERE state = 'awaiting_approval'
    RETURNING id, tenant_id, next_event_seq - 1 AS seq
), skipped AS (
    UPDATE tool_calls c SET exec_state = 'skipped', finished_at = clock_timestamp()
      FROM ended WHERE c.run_id = ended.id AND c.exec_state = 'none'
)
INSERT INTO run_events (tenant_id, run_id, seq, type, data)
SELECT tenant_id, id, seq, 'run.finished',
       json_build_object('run_id', id, 'at', clock_timestamp(), 'state', 'failed', 'failure',
           json_build_object('reason', 'rolled_back', 'message', 'the release that paused this run was rolled back'))
  FROM ended;

RESET ROLE;

DROP INDEX runs_awaiting;
ALTER TABLE runs
    DROP CONSTRAINT runs_awaiting,
    DROP CONSTRAINT runs_state,
    DROP COLUMN gen,
    DROP COLUMN suspension_id,
    DROP COLUMN suspension_opened_at,
    DROP COLUMN awaiting_since,
    ADD CONSTRAINT runs_state CHECK (state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled'));
