-- Without this migration a fork has lost its past: what is not over ends here, and its story says so.
SET LOCAL ROLE hango_system;

WITH ended AS (
    UPDATE runs SET state = 'failed', failure_reason = 'rolled_back',
                    failure_message = 'the release that forked this run was rolled back',
                    finished_at = clock_timestamp(), lease_epoch = lease_epoch + 1,
                    next_event_seq = next_event_seq + 1
     WHERE forked_from IS NOT NULL AND state NOT IN ('succeeded', 'failed', 'cancelled')
    RETURNING id, tenant_id, next_event_seq - 1 AS seq
), skipped AS (
    UPDATE tool_calls c SET exec_state = 'skipped', finished_at = clock_timestamp()
      FROM ended WHERE c.run_id = ended.id AND c.exec_state = 'none'
)
INSERT INTO run_events (tenant_id, run_id, seq, type, data)
SELECT tenant_id, id, seq, 'run.finished',
       json_build_object('state', 'failed', 'failure',
           json_build_object('reason', 'rolled_back', 'message', 'the release that forked this run was rolled back'))
  FROM ended;

RESET ROLE;

DROP INDEX threads_of_creator;
DROP INDEX threads_newest;
DROP INDEX checkpoints_of_run;
CREATE INDEX checkpoints_of_run ON checkpoints (run_id, created_at);
DROP FUNCTION run_chain(uuid, uuid);
ALTER TABLE runs
    DROP CONSTRAINT runs_forked,
    DROP COLUMN forked_seq,
    DROP COLUMN forked_turn,
    DROP COLUMN replay;
