-- Reading approvals for people. `$n requested_by` is null for those who see the whole tenant.

-- name: list_approvals :many
-- $1 tenant_id, $2 requested_by or null, $3 state or null, $4 tool_name or null, $5 agent or null, $6 run_id or null,
-- $7 created_at of the last one seen or null, $8 its id, $9 limit
-- opens: arguments_raw input decision_args_raw decision_message decision_value
SELECT a.id, a.suspension_id, a.position, a.turn, a.subagent_path, a.call_index, a.entry, a.tool_call_id, a.tool_name,
       a.kind, a.arguments_raw, a.arguments_sha256, a.allowed_decisions, a.rule, a.parameters, a.input,
       a.subagent_call_id, a.state, a.decision, a.decision_args_raw, a.decision_args_sha256, a.decision_message,
       a.decision_value, a.decided_by, a.decided_at, a.execution_state, a.execution_at,
       s.state AS suspension_state, s.tenant_id, s.run_id, s.gen, s.requested_by, s.agent, s.agent_version, s.created_at,
       s.expires_at, s.closed_at, s.traceparent, t.name AS tenant, false AS late
  FROM pending_approvals a JOIN suspensions s ON s.id = a.suspension_id JOIN tenants t ON t.id = s.tenant_id
 WHERE a.tenant_id = $1
   AND ($2::uuid IS NULL OR s.requested_by = $2)
   AND ($3::text IS NULL OR a.state = $3)
   AND ($4::text IS NULL OR a.tool_name = $4)
   AND ($5::text IS NULL OR s.agent = $5)
   AND ($6::uuid IS NULL OR a.run_id = $6)
   AND ($7::timestamptz IS NULL OR (a.created_at, a.id) > ($7, $8::uuid))
 ORDER BY a.created_at, a.id
 LIMIT $9;

-- name: find_approval :one
-- $1 tenant_id, $2 approval_id, $3 requested_by or null
SELECT a.suspension_id
  FROM pending_approvals a JOIN suspensions s ON s.id = a.suspension_id
 WHERE a.tenant_id = $1 AND a.id = $2 AND ($3::uuid IS NULL OR s.requested_by = $3);

-- name: run_is_known :one
-- Whether the run has a suspension that the caller may see.
-- $1 tenant_id, $2 run_id, $3 requested_by or null
SELECT EXISTS (
    SELECT FROM suspensions s
     WHERE s.tenant_id = $1 AND s.run_id = $2 AND s.batch_sha256 IS NOT NULL
       AND ($3::uuid IS NULL OR s.requested_by = $3)) AS known;

-- name: lock_reported :many
-- In the one order in which approvals are locked. Over all tenants.
-- $1 approval ids
SELECT a.id, a.tenant_id, a.run_id, a.tool_name, a.tool_call_id, a.execution_state, a.state, a.decision,
       coalesce(a.decision_args_sha256, a.arguments_sha256) AS digest
  FROM pending_approvals a
 WHERE a.id = ANY ($1::uuid[])
 ORDER BY a.suspension_id, a.position FOR UPDATE;

-- name: set_executions :exec
-- $1 approval ids, $2 states, $3 times
UPDATE pending_approvals a SET execution_state = r.state, execution_at = r.at
  FROM unnest($1::uuid[], $2::text[], $3::timestamptz[]) AS r(id, state, at)
 WHERE a.id = r.id;

-- name: stale_suspensions :many
-- Pending for a minute, in pages: their runs may be over.
-- $1 expires_at of the last one seen or null, $2 its id, $3 limit
SELECT id, tenant_id, run_id, expires_at
  FROM suspensions
 WHERE state = 'pending' AND created_at < clock_timestamp() - interval '60 seconds'
   AND ($1::timestamptz IS NULL OR (expires_at, id) > ($1, $2::uuid))
 ORDER BY expires_at, id
 LIMIT $3;

-- name: pending_by_tool :many
SELECT tool_name, count(*) AS pending FROM pending_approvals WHERE state = 'pending' GROUP BY tool_name;

-- name: count_faults :one
-- What must never be. A question is executed again with its answer; any other answered or refused call never runs.
SELECT count(*) FILTER (
           WHERE a.execution_state NOT IN ('none', 'skipped')
             AND (a.decision IS NULL OR a.decision = 'reject' OR (a.decision = 'respond' AND a.kind = 'tool_call'))
       ) AS executed_undecided,
       count(*) FILTER (
           WHERE a.state = 'decided' AND NOT EXISTS (
               SELECT FROM audit_checkpoints c WHERE c.tenant_id = a.tenant_id AND c.at >= a.decided_at)
             AND NOT EXISTS (
               SELECT FROM audit_events e
                WHERE e.tenant_id = a.tenant_id AND e.target_id = a.id::text
                  AND e.action = 'approval.decide' AND e.outcome = 'ok')
       ) AS decided_unaudited,
       count(*) FILTER (
           WHERE a.state = 'decided' AND a.execution_state = 'none'
             AND a.decided_at < clock_timestamp() - interval '10 minutes'
       ) AS decided_unexecuted
  FROM pending_approvals a;
