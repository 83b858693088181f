-- Suspensions and their approvals. Lock order in this service: suspension, approvals by position, idempotency, audit
-- head, outbox.

-- name: open_suspension :one
-- Idempotent by id: where the row is there, or is just being made by somebody else (this waits for him), nothing
-- matches. No constraint is named: the id is made of run and generation, and a rival may meet either index first. The
-- deadline is the database's clock and the TTL, set here once.
-- $1 id, $2 tenant_id, $3 run_id, $4 gen, $5 turn, $6 requested_by, $7 agent, $8 agent_version, $9 batch_sha256,
-- $10 traceparent, $11 TTL
WITH tenant AS (
    SELECT id, name FROM tenants WHERE id = $2
), opened AS (
    INSERT INTO suspensions (id, tenant_id, run_id, gen, turn, requested_by, agent, agent_version, batch_sha256, state,
                             created_at, expires_at, traceparent)
    SELECT $1, tenant.id, $3, $4, $5, $6, $7, $8, $9, 'pending', clock.at, clock.at + $11::interval, $10
      FROM tenant, (SELECT clock_timestamp() AS at) AS clock
    ON CONFLICT DO NOTHING
    RETURNING created_at, expires_at
)
SELECT opened.created_at, opened.expires_at, tenant.name AS tenant FROM opened, tenant;

-- name: insert_approvals :exec
-- $1 suspension_id, $2 tenant_id, $3 run_id, $4 created_at, then one array a column: $5 ids, $6 positions, $7 turns,
-- $8 subagent_paths, $9 call_indexes, $10 entries, $11 tool_call_ids, $12 tool_names, $13 kinds, $14 arguments,
-- $15 digests, $16 allowed decisions (each joined by a comma: arrays of arrays have one length), $17 rules,
-- $18 parameters, $19 inputs, $20 subagent_call_ids
-- seals: $14 $19
INSERT INTO pending_approvals (id, suspension_id, tenant_id, run_id, position, turn, subagent_path, call_index, entry,
    tool_call_id, tool_name, kind, arguments_raw, arguments_sha256, allowed_decisions, rule, parameters, input,
    subagent_call_id, state, created_at)
SELECT c.id, $1, $2, $3, c.position, c.turn, c.subagent_path, c.call_index, c.entry, c.tool_call_id, c.tool_name, c.kind,
       c.arguments, c.digest, string_to_array(c.allowed, ','), c.rule, c.parameters, c.input, c.subagent_call_id,
       'pending', $4
  FROM unnest($5::uuid[], $6::int[], $7::int[], $8::text[], $9::int[], $10::int[], $11::text[], $12::text[], $13::text[],
              $14::bytea[], $15::text[], $16::text[], $17::json[], $18::json[], $19::bytea[], $20::text[])
    AS c(id, position, turn, subagent_path, call_index, entry, tool_call_id, tool_name, kind, arguments, digest, allowed,
         rule, parameters, input, subagent_call_id);

-- name: read_opened :one
-- $1 tenant_id, $2 suspension_id
SELECT state, batch_sha256, created_at, expires_at FROM suspensions WHERE tenant_id = $1 AND id = $2;

-- name: lock_latest_suspension :one
-- What a decide is about. The CTE is materialised because of FOR UPDATE, so the clock is read after the lock was had:
-- who waited for it past the deadline sees that he is late.
-- $1 tenant_id, $2 run_id
WITH l AS MATERIALIZED (
    SELECT * FROM suspensions WHERE tenant_id = $1 AND run_id = $2 ORDER BY gen DESC LIMIT 1 FOR UPDATE
)
SELECT l.id AS suspension_id, l.state AS suspension_state, l.tenant_id, l.run_id, l.gen, l.requested_by,
       l.agent, l.agent_version, l.created_at, coalesce(l.expires_at, l.created_at) AS expires_at, l.closed_at, l.traceparent,
       t.name AS tenant, coalesce(clock_timestamp() >= l.expires_at, false) AS late
  FROM l JOIN tenants t ON t.id = l.tenant_id;

-- name: lock_suspension :one
-- $1 tenant_id, $2 suspension_id
WITH l AS MATERIALIZED (
    SELECT * FROM suspensions WHERE tenant_id = $1 AND id = $2 FOR UPDATE
)
SELECT l.id AS suspension_id, l.state AS suspension_state, l.tenant_id, l.run_id, l.gen, l.requested_by,
       l.agent, l.agent_version, l.created_at, coalesce(l.expires_at, l.created_at) AS expires_at, l.closed_at, l.traceparent,
       t.name AS tenant, coalesce(clock_timestamp() >= l.expires_at, false) AS late
  FROM l JOIN tenants t ON t.id = l.tenant_id;

-- name: lock_due_suspension :one
-- SKIP LOCKED: a decide that holds the row is either in time, or expires it itself; two sweepers share the work. The
-- statement's time lies before the clock's, so it never expires too early, and unlike the clock it can use the index.
WITH l AS MATERIALIZED (
    SELECT * FROM suspensions WHERE state = 'pending' AND expires_at <= statement_timestamp()
     ORDER BY expires_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
)
SELECT l.id AS suspension_id, l.state AS suspension_state, l.tenant_id, l.run_id, l.gen, l.requested_by,
       l.agent, l.agent_version, l.created_at, coalesce(l.expires_at, l.created_at) AS expires_at, l.closed_at, l.traceparent,
       t.name AS tenant, true AS late
  FROM l JOIN tenants t ON t.id = l.tenant_id;

-- name: read_suspension :one
-- $1 tenant_id, $2 suspension_id
SELECT s.id AS suspension_id, s.state AS suspension_state, s.tenant_id, s.run_id, s.gen, s.requested_by,
       s.agent, s.agent_version, s.created_at, coalesce(s.expires_at, s.created_at) AS expires_at, s.closed_at, s.traceparent,
       t.name AS tenant, false AS late
  FROM suspensions s JOIN tenants t ON t.id = s.tenant_id WHERE s.tenant_id = $1 AND s.id = $2;

-- name: suspension_approvals :many
-- $1 tenant_id, $2 suspension_id
-- opens: arguments_raw input decision_args_raw decision_message decision_value
SELECT id, suspension_id, position, turn, subagent_path, call_index, entry, tool_call_id, tool_name, kind,
       arguments_raw, arguments_sha256, allowed_decisions, rule, parameters, input, subagent_call_id, state,
       decision, decision_args_raw, decision_args_sha256, decision_message, decision_value, decided_by,
       decided_at, execution_state, execution_at
  FROM pending_approvals WHERE tenant_id = $1 AND suspension_id = $2 ORDER BY position;

-- name: lock_approvals :many
-- In one order everywhere: a report may touch the same rows at the same time.
-- $1 tenant_id, $2 suspension_id
-- opens: arguments_raw input decision_args_raw decision_message decision_value
SELECT id, suspension_id, position, turn, subagent_path, call_index, entry, tool_call_id, tool_name, kind,
       arguments_raw, arguments_sha256, allowed_decisions, rule, parameters, input, subagent_call_id, state,
       decision, decision_args_raw, decision_args_sha256, decision_message, decision_value, decided_by,
       decided_at, execution_state, execution_at
  FROM pending_approvals WHERE tenant_id = $1 AND suspension_id = $2 ORDER BY position FOR UPDATE;

-- name: close_as_decided :one
-- The WHERE clause is the whole concurrency story: of decide, expire and withdraw racing for one row, the first to lock
-- it wins and the others match nothing. Nothing is decided past the deadline, however long a decide took.
-- $1 tenant_id, $2 suspension_id, $3 closed_by
UPDATE suspensions SET state = 'decided', closed_at = clock_timestamp(), closed_by = $3
 WHERE tenant_id = $1 AND id = $2 AND state = 'pending' AND clock_timestamp() < expires_at
RETURNING closed_at;

-- name: close_suspension :one
-- As expired or withdrawn.
-- $1 tenant_id, $2 suspension_id, $3 state, $4 closed_by
UPDATE suspensions SET state = $3, closed_at = clock_timestamp(), closed_by = $4
 WHERE tenant_id = $1 AND id = $2 AND state = 'pending'
RETURNING closed_at;

-- name: close_approvals :exec
-- $1 tenant_id, $2 suspension_id, $3 state
UPDATE pending_approvals SET state = $3 WHERE tenant_id = $1 AND suspension_id = $2 AND state = 'pending';

-- name: decide_approvals :exec
-- $1 tenant_id, $2 suspension_id, $3 decided_by, $4 decided_at, then one array a column: $5 ids, $6 decisions,
-- $7 arguments, $8 their digests, $9 messages, $10 values
-- seals: $7 $9 $10
UPDATE pending_approvals a
   SET state = 'decided', decided_by = $3, decided_at = $4, decision = d.decision, decision_args_raw = d.args,
       decision_args_sha256 = d.digest, decision_message = d.message, decision_value = d.value
  FROM unnest($5::uuid[], $6::text[], $7::bytea[], $8::text[], $9::text[], $10::bytea[])
    AS d(id, decision, args, digest, message, value)
 WHERE a.id = d.id AND a.tenant_id = $1 AND a.suspension_id = $2 AND a.state = 'pending';

-- name: insert_tombstone :one
-- A suspension that is withdrawn before it was opened. Where it is there, or just being opened (this waits), nothing
-- matches.
-- $1 suspension_id, $2 tenant_id, $3 run_id, $4 gen, $5 closed_by
INSERT INTO suspensions (id, tenant_id, run_id, gen, state, closed_at, closed_by)
VALUES ($1, $2, $3, $4, 'withdrawn', clock_timestamp(), $5)
ON CONFLICT DO NOTHING
RETURNING id;

-- name: verdicts :many
-- Bytes only for what is to run.
-- $1 suspension ids
-- opens: args decision_message decision_value
SELECT s.id AS suspension_id, s.state, s.batch_sha256 IS NOT NULL AS opened, s.created_at, s.expires_at, s.closed_at,
       a.id, a.subagent_path, a.call_index, a.entry, a.decision, a.decision_message, a.decision_value, a.decided_by,
       CASE a.decision WHEN 'approve' THEN a.arguments_raw WHEN 'edit' THEN a.decision_args_raw END AS args
  FROM suspensions s LEFT JOIN pending_approvals a ON a.suspension_id = s.id
 WHERE s.id = ANY ($1::uuid[])
 ORDER BY s.id, a.position;

-- name: named_approval :many
-- For the audit row of a refused attempt.
-- $1 tenant_id, $2 approval_id or null, $3 run_id or null, $4 tool_call_id
SELECT a.id, a.tool_name, a.tool_call_id
  FROM pending_approvals a
 WHERE a.tenant_id = $1
   AND CASE WHEN $2::uuid IS NOT NULL THEN a.id = $2
            ELSE a.tool_call_id = $4 AND a.suspension_id = (
                SELECT s.id FROM suspensions s
                 WHERE s.tenant_id = $1 AND s.run_id = $3 ORDER BY s.gen DESC LIMIT 1) END
 LIMIT 2;

-- name: earlier_suspension :one
-- The state of another suspension of the run that one of these approvals belongs to. A call's id is its run's alone.
-- $1 tenant_id, $2 run_id, $3 suspension_id, $4 approval ids, $5 tool call ids
SELECT s.state
  FROM pending_approvals a JOIN suspensions s ON s.id = a.suspension_id
 WHERE a.tenant_id = $1 AND a.run_id = $2 AND a.suspension_id <> $3
   AND (a.id = ANY ($4::uuid[]) OR a.tool_call_id = ANY ($5::text[]))
 LIMIT 1;
