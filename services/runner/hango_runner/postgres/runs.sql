-- name: insert_run :one
-- T0. The partial unique index on live threads decides between two that start at once.
-- $1 id, $2 tenant id, $3 tenant slug, $4 agent, $5 its version, $6 thread or null, $7 lane, $8 metadata,
-- $9 user, $10 traceparent, $11 the user's message, $12 event, $13 checkpoint
-- seals json: $11 $12
WITH run AS (
    INSERT INTO runs (id, tenant_id, tenant, agent, agent_version, thread_id, lane, state, metadata, created_by,
                      traceparent, next_event_seq, next_message_seq)
    VALUES ($1, $2, $3, $4, $5, $6, $7, 'queued', $8, $9, $10, 3, 2)
    RETURNING *
), message AS (
    INSERT INTO messages (tenant_id, run_id, seq, role, content) SELECT $2, id, 1, 'user', $11 FROM run
), events AS (
    INSERT INTO run_events (tenant_id, run_id, seq, type, data)
    SELECT $2, id, e.seq, e.type, e.data
      FROM run, (VALUES (1, 'run.queued', '{}'::json), (2, 'message.created', $12::json)) AS e(seq, type, data)
), checkpoint AS (
    INSERT INTO checkpoints (tenant_id, id, run_id, turn, next, message_count) SELECT $2, $13, id, 0, 'model', 1 FROM run
)
SELECT *, 0 AS pending_approvals FROM run;

-- name: claim_thread :one
-- Makes the thread if it is new; the row as it is, whoever made it.
-- $1 tenant id, $2 thread, $3 agent, $4 user
WITH made AS (
    INSERT INTO threads (tenant_id, id, agent, created_by) VALUES ($1, $2, $3, $4)
    ON CONFLICT (tenant_id, id) DO NOTHING
    RETURNING agent, created_by
)
SELECT agent, created_by FROM made
UNION ALL
SELECT agent, created_by FROM threads WHERE tenant_id = $1 AND id = $2
LIMIT 1;

-- name: get_run :one
-- $1 tenant id, $2 run
SELECT r.*, (SELECT count(*) FROM tool_calls c
              WHERE c.run_id = r.id AND c.ruling = 'gated' AND c.decision IS NULL AND c.exec_state = 'none'
                AND r.state = 'awaiting_approval')::int AS pending_approvals
  FROM runs r WHERE r.tenant_id = $1 AND r.id = $2;

-- name: list_runs :many
-- $1 tenant id, $2 only this creator's or null, $3 states or null, $4 agent or null, $5 thread or null,
-- $6 and $7 the last row of the page before (time, id) or null, $8 limit, $9 opened or not, or null
SELECT r.*, (SELECT count(*) FROM tool_calls c
              WHERE c.run_id = r.id AND c.ruling = 'gated' AND c.decision IS NULL AND c.exec_state = 'none'
                AND r.state = 'awaiting_approval')::int AS pending_approvals
  FROM runs r
 WHERE r.tenant_id = $1
   AND ($2::uuid IS NULL OR r.created_by = $2)
   AND ($3::text[] IS NULL OR r.state = ANY ($3))
   AND ($4::text IS NULL OR r.agent = $4)
   AND ($5::text IS NULL OR r.thread_id = $5)
   AND ($6::timestamptz IS NULL OR (r.created_at, r.id) < ($6, $7::uuid))
   AND ($9::boolean IS NULL OR r.state <> 'awaiting_approval' OR (r.suspension_opened_at IS NOT NULL) = $9)
 ORDER BY r.created_at DESC, r.id DESC
 LIMIT $8;

-- name: run_states :many
-- $1 runs
SELECT id, tenant_id, created_by, state, suspension_opened_at FROM runs WHERE id = ANY ($1::uuid[]);

-- name: list_messages :many
-- A run's own messages behind those that it shares with what it was forked from.
-- $1 tenant id, $2 run, $3 after this number, $4 limit, $5 up to this number or null
-- opens: content tool_calls
SELECT m.*
  FROM run_chain($1, $2) p
 CROSS JOIN LATERAL (
    SELECT * FROM messages o
     WHERE o.tenant_id = $1 AND o.run_id = p.run_id AND o.seq > $3 AND o.seq <= least(p.last_seq, $5::bigint)
     ORDER BY o.seq LIMIT $4) m
 ORDER BY m.seq
 LIMIT $4;

-- name: list_events :many
-- The run comes along, so that a reader knows whether he may read and whether more can come.
-- $1 tenant id, $2 run, $3 after this number, $4 limit
-- opens: data
SELECT r.state, r.created_by, r.next_event_seq, e.seq, e.type, e.at, e.data
  FROM runs r
  LEFT JOIN run_events e ON e.run_id = r.id AND e.tenant_id = r.tenant_id AND e.seq > $3
 WHERE r.tenant_id = $1 AND r.id = $2
 ORDER BY e.seq
 LIMIT $4;

-- name: insert_events :exec
-- $1 tenant id, $2 run, $3 number of the first, $4 types, $5 data
-- seals json: $5
INSERT INTO run_events (tenant_id, run_id, seq, type, data)
SELECT $1, $2, $3::bigint + e.place - 1, e.type, e.data::json
  FROM unnest($4::text[], $5::text[]) WITH ORDINALITY AS e(type, data, place);

-- name: insert_messages :exec
-- With the checkpoint that they lead to; only the main agent has checkpoints.
-- $1 tenant id, $2 run, $3 number of the first, $4 subagent path, $5 roles, $6 contents, $7 tool calls,
-- $8 call ids, $9 tool names, $10 errors, $11 checkpoint id, $12 turn, $13 next, $14 the subagent's `task` call or null
-- seals json: $6 $7
WITH added AS (
    INSERT INTO messages (tenant_id, run_id, seq, subagent_path, role, content, tool_calls, tool_call_id,
                          tool_name, is_error, subagent_call_id)
    SELECT $1, $2, $3::bigint + m.place - 1, $4, m.role, m.content::json, m.tool_calls::json, m.tool_call_id,
           m.tool_name, m.is_error, $14
      FROM unnest($5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::boolean[])
           WITH ORDINALITY AS m(role, content, tool_calls, tool_call_id, tool_name, is_error, place)
)
INSERT INTO checkpoints (tenant_id, id, run_id, turn, next, message_count)
SELECT $1, $11, $2, $12, $13, $3::bigint - 1 + cardinality($5::text[]) WHERE $4 = '';

-- name: conversation :many
-- What the model is shown: the thread's earlier runs, what the run shares with those that it was forked from, then its
-- own messages. Only a run that was not forked has a thread: it is the last of its chain.
-- $1 tenant id, $2 run
-- opens: content tool_calls
-- opens inside: outcomes
WITH part AS (
    SELECT run_id, depth, last_seq, NULL::timestamptz AS created_at, NULL::text AS ended FROM run_chain($1, $2)
    UNION ALL
    SELECT r.id, p.depth + 1, p.last_seq, r.created_at, coalesce(r.failure_reason, r.state)
      FROM (SELECT run_id, depth, 9223372036854775807 AS last_seq FROM run_chain($1, $2)) p
      JOIN runs o ON o.tenant_id = $1 AND o.id = p.run_id
      JOIN runs r ON r.tenant_id = $1 AND r.thread_id = o.thread_id AND (r.created_at, r.id) < (o.created_at, o.id)
)
SELECT m.role, m.content, m.tool_calls, m.tool_call_id, m.tool_name, m.is_error, p.ended,
       CASE WHEN p.ended IS NOT NULL AND m.tool_calls IS NOT NULL THEN
            (SELECT json_object_agg(c.tool_call_id, json_build_object(
                        'state', c.exec_state, 'result', c.result,
                        'edited', CASE WHEN c.decision = 'edit' THEN convert_from(c.decided_raw, 'UTF8') END))
               FROM tool_calls c
              WHERE c.run_id = p.run_id AND c.subagent_path = '') END AS outcomes
  FROM part p
  JOIN messages m ON m.tenant_id = $1 AND m.run_id = p.run_id AND m.subagent_path = '' AND m.seq <= p.last_seq
 ORDER BY p.depth DESC, p.created_at, p.run_id, m.seq;
