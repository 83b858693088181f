-- name: claim_runs :many
-- T1. SKIP LOCKED, so that workers never wait for each other. The new epoch fences whoever held the run before.
-- $1 lane, $2 limit, $3 owner, $4 lease
WITH due AS (
    SELECT id FROM runs WHERE state = 'queued' AND lane = $1
     ORDER BY queued_at LIMIT $2 FOR UPDATE SKIP LOCKED
), claimed AS (
    UPDATE runs r
       SET state = 'running', lease_epoch = r.lease_epoch + 1, lease_owner = $3,
           lease_until = clock_timestamp() + $4::interval,
           started_at = coalesce(r.started_at, clock_timestamp()),
           next_event_seq = r.next_event_seq + (r.started_at IS NULL)::int
      FROM due WHERE r.id = due.id
    RETURNING r.*
), started AS (
    INSERT INTO run_events (tenant_id, run_id, seq, type, data)
    SELECT tenant_id, id, next_event_seq - 1, 'run.started', '{}'::json FROM claimed WHERE lease_epoch = 1
)
SELECT c.id, c.tenant_id, c.tenant, c.agent, c.agent_version, c.thread_id, c.created_by, c.turn, c.next, c.gen,
       c.suspension_id, c.lease_epoch, c.model_calls, c.traceparent, c.attempts,
       c.input_tokens + c.output_tokens AS tokens, a.spec
  FROM claimed c
  JOIN agents a ON a.tenant_id = c.tenant_id AND a.name = c.agent AND a.version = c.agent_version;

-- name: renew_leases :many
-- $1 runs, $2 their epochs, $3 lease
UPDATE runs r SET lease_until = clock_timestamp() + $3::interval
  FROM unnest($1::uuid[], $2::bigint[]) AS mine(id, epoch)
 WHERE r.id = mine.id AND r.lease_epoch = mine.epoch AND r.state = 'running'
RETURNING r.id;

-- name: release_run :exec
-- T10. The epoch: a frozen worker must not let go of somebody else's lease.
-- $1 tenant id, $2 run, $3 epoch
UPDATE runs SET state = 'queued', queued_at = clock_timestamp(), lease_owner = NULL, lease_until = NULL
 WHERE tenant_id = $1 AND id = $2 AND lease_epoch = $3 AND state = 'running';

-- name: reap_runs :many
-- T6, for runs that are tried again. `clock_timestamp()`, since a transaction that waited for a lock would see an old
-- `now()`.
-- $1 limit, $2 most attempts
WITH lost AS (
    SELECT id FROM runs
     WHERE state = 'running' AND lease_until < clock_timestamp() AND attempts < $2
     ORDER BY lease_until LIMIT $1 FOR UPDATE SKIP LOCKED
)
UPDATE runs r
   SET state = 'queued', queued_at = clock_timestamp(), lease_epoch = r.lease_epoch + 1,
       attempts = r.attempts + 1, lease_owner = NULL, lease_until = NULL
  FROM lost WHERE r.id = lost.id
RETURNING r.id, r.tenant_id;

-- name: exhausted_runs :many
-- T6, for runs that were tried often enough; each is ended in a transaction of its own.
-- $1 limit, $2 most attempts
SELECT id, tenant_id FROM runs
 WHERE state = 'running' AND lease_until < clock_timestamp() AND attempts >= $2
 ORDER BY lease_until LIMIT $1;

-- name: exhaust_run :one
-- $1 tenant id, $2 run, $3 most attempts
UPDATE runs
   SET state = 'failed', failure_reason = 'recovery_exhausted',
       failure_message = 'the run was taken up again too often without getting anywhere',
       finished_at = clock_timestamp(), lease_epoch = lease_epoch + 1, attempts = attempts + 1,
       next_event_seq = next_event_seq + 1
 WHERE tenant_id = $1 AND id = $2 AND state = 'running' AND lease_until < clock_timestamp() AND attempts >= $3
RETURNING id, tenant, agent, turn, next_event_seq - 1 AS event_seq, created_by, thread_id;

-- name: left_started :many
-- Calls that a finished run left started, once its lease is over: nobody will report them any more.
-- $1 limit
SELECT DISTINCT r.id, r.tenant_id
  FROM tool_calls c JOIN runs r ON r.id = c.run_id
 WHERE c.exec_state = 'started' AND r.state IN ('succeeded', 'failed', 'cancelled')
   AND (r.lease_until IS NULL OR r.lease_until < clock_timestamp())
 LIMIT $1;

-- name: close_started :many
-- $1 tenant id, $2 run
UPDATE tool_calls SET exec_state = 'unknown', finished_at = clock_timestamp()
 WHERE tenant_id = $1 AND run_id = $2 AND exec_state = 'started'
RETURNING subagent_path, turn, call_index, approval_id;

-- name: skip_calls :many
-- Calls that the run's end leaves unstarted.
-- $1 tenant id, $2 run
UPDATE tool_calls SET exec_state = 'skipped', finished_at = clock_timestamp()
 WHERE tenant_id = $1 AND run_id = $2 AND exec_state = 'none'
RETURNING subagent_path, turn, call_index, approval_id;

-- name: awaiting_runs :many
-- $1 limit, $2 only after this run or null
SELECT id, tenant_id, suspension_id, suspension_opened_at FROM runs
 WHERE state = 'awaiting_approval' AND ($2::uuid IS NULL OR id > $2)
 ORDER BY id LIMIT $1;

-- name: runs_by_state :many
SELECT state, count(*) AS runs FROM runs
 WHERE state IN ('queued', 'running', 'awaiting_approval') GROUP BY state;
