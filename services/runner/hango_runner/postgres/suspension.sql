-- name: open_run :one
-- T2b. The same suspension: an answer about an older one must not open a newer one (suspend.pml, W_T2BID).
-- $1 tenant id, $2 run, $3 suspension, $4 opened at, $5 events
UPDATE runs
   SET suspension_opened_at = $4, awaiting_since = clock_timestamp(), next_event_seq = next_event_seq + $5
 WHERE tenant_id = $1 AND id = $2 AND suspension_id = $3 AND state = 'awaiting_approval'
   AND suspension_opened_at IS NULL
RETURNING id, tenant_id, turn, next_event_seq - $5::int AS next_event_seq;

-- name: name_approvals :many
-- The calls of a suspension, under the run's lock, with the approvals that A has made for them.
-- Of one agent's calls at one place only the newest can still wait, so no turn is asked for.
-- $1 tenant id, $2 run, $3 subagent paths, $4 call indexes, $5 approval ids
-- opens: arguments_raw input decided_raw decision_message decision_value result
UPDATE tool_calls c SET approval_id = a.id
  FROM unnest($3::text[], $4::int[], $5::uuid[]) AS a(path, place, id)
 WHERE c.tenant_id = $1 AND c.run_id = $2 AND c.subagent_path = a.path AND c.call_index = a.place
   AND c.ruling = 'gated' AND c.exec_state = 'none' AND c.decision IS NULL
RETURNING c.*;

-- name: lock_awaiting :one
-- The run's row first, always.
-- $1 tenant id, $2 run, $3 suspension
SELECT id, tenant_id, tenant, agent, agent_version, turn, gen, created_by, suspension_opened_at, next_event_seq, lane, traceparent
  FROM runs
 WHERE tenant_id = $1 AND id = $2 AND suspension_id = $3 AND state = 'awaiting_approval'
   FOR UPDATE;

-- name: gated_calls :many
-- The calls of a suspension, in call order.
-- $1 tenant id, $2 run
-- opens: arguments_raw input decided_raw decision_message decision_value result
SELECT * FROM tool_calls
 WHERE tenant_id = $1 AND run_id = $2 AND ruling = 'gated' AND decision IS NULL AND exec_state = 'none'
 ORDER BY subagent_path, call_index;

-- name: copy_decisions :many
-- Part of T3. A call that is not to run is told so here; what is to run keeps its digest for T7.
-- $1 tenant id, $2 run, then by call: $3 subagent paths, $4 call indexes, $5 approval ids, $6 decisions,
-- $7 bytes to run, $8 their digests, $9 messages, $10 values, $11 deciders
-- seals: $7 $9 $10
-- opens: arguments_raw input decided_raw decision_message decision_value result
UPDATE tool_calls c
   SET approval_id = d.approval_id, decision = d.decision, decided_raw = d.raw, decided_sha256 = d.digest,
       decision_message = d.message, decision_value = d.value, decided_by = d.decided_by,
       exec_state = CASE WHEN d.decision IN ('reject', 'respond') THEN 'skipped' ELSE c.exec_state END
  FROM unnest($3::text[], $4::int[], $5::uuid[], $6::text[], $7::bytea[], $8::text[], $9::text[], $10::bytea[],
              $11::uuid[])
       AS d(path, place, approval_id, decision, raw, digest, message, value, decided_by)
 WHERE c.tenant_id = $1 AND c.run_id = $2 AND c.subagent_path = d.path AND c.call_index = d.place
   AND c.ruling = 'gated' AND c.decision IS NULL AND c.exec_state = 'none'
RETURNING c.*;

-- name: resume_run :exec
-- T3, under the lock of lock_awaiting.
-- $1 tenant id, $2 run, $3 opened at, $4 events
UPDATE runs
   SET state = 'queued', queued_at = clock_timestamp(), awaiting_since = NULL,
       suspension_opened_at = coalesce(suspension_opened_at, $3), next_event_seq = next_event_seq + $4
 WHERE tenant_id = $1 AND id = $2;

-- name: end_awaiting :one
-- T4 and T4w, under the lock of lock_awaiting.
-- $1 tenant id, $2 run, $3 state, $4 failure reason or null, $5 failure message or null, $6 events
UPDATE runs
   SET state = $3, failure_reason = $4, failure_message = $5, finished_at = clock_timestamp(), awaiting_since = NULL,
       lease_epoch = lease_epoch + 1, next_event_seq = next_event_seq + $6
 WHERE tenant_id = $1 AND id = $2
RETURNING finished_at;

-- name: lock_run :one
-- $1 tenant id, $2 run
SELECT * FROM runs WHERE tenant_id = $1 AND id = $2 FOR UPDATE;

-- name: cancel_run :one
-- T5, under the lock of lock_run. `lease_until` stays: until then a started call may still tell its result.
-- $1 tenant id, $2 run, $3 events
UPDATE runs
   SET state = 'cancelled', finished_at = clock_timestamp(), awaiting_since = NULL, lease_epoch = lease_epoch + 1,
       next_event_seq = next_event_seq + $3
 WHERE tenant_id = $1 AND id = $2
RETURNING finished_at;

-- name: settle_outbox :exec
-- What the outbox was to do has been done by other means.
-- $1 tenant id, $2 kind, $3 key
UPDATE outbox SET published_at = clock_timestamp()
 WHERE tenant_id = $1 AND kind = $2 AND key = $3 AND published_at IS NULL;
