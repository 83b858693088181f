-- name: list_checkpoints :many
-- $1 tenant id, $2 run, $3 only with more messages than this, $4 limit
SELECT * FROM checkpoints
 WHERE tenant_id = $1 AND run_id = $2 AND message_count > $3
 ORDER BY message_count
 LIMIT $4;

-- name: get_checkpoint :one
-- With the role of the last message there, where it is the run's own.
-- $1 tenant id, $2 run, $3 checkpoint
SELECT c.*, m.role
  FROM checkpoints c
  LEFT JOIN messages m ON m.run_id = c.run_id AND m.seq = c.message_count
 WHERE c.tenant_id = $1 AND c.run_id = $2 AND c.id = $3;

-- name: last_todos :one
-- The newest list of todos that was written down before a turn.
-- $1 tenant id, $2 run, $3 turn
-- opens: arguments_raw
SELECT coalesce(c.decided_raw, c.arguments_raw) AS arguments_raw
  FROM run_chain($1, $2) p
  JOIN tool_calls c ON c.tenant_id = $1 AND c.run_id = p.run_id AND c.subagent_path = ''
                   AND c.turn < p.turns AND (p.depth > 0 OR c.turn < $3)
 WHERE c.tool_name = 'write_todos' AND c.exec_state = 'succeeded'
 ORDER BY p.depth, c.turn DESC, c.call_index DESC
 LIMIT 1;

-- name: insert_fork :one
-- T0 of a fork: everything but its past is its own.
-- $1 id, $2 tenant id, $3 the original, $4 user, $5 traceparent, $6 last message in common, $7 turns in common,
-- $8 changed calls of the answer to take over or null, $9 messages, $10 events
-- seals json: $8
INSERT INTO runs (id, tenant_id, tenant, agent, agent_version, lane, state, metadata, created_by, traceparent,
                  forked_from, forked_seq, forked_turn, replay, next_message_seq, next_event_seq)
SELECT $1, $2, o.tenant, o.agent, o.agent_version, o.lane, 'queued', '{}', $4, $5,
       o.id, $6::bigint, $7::int, $8::json, $6::bigint + $9::int + 1, $10::int + 1
  FROM runs o WHERE o.tenant_id = $2 AND o.id = $3
RETURNING *, 0 AS pending_approvals;

-- name: copy_files :exec
-- The files of a scope as they were at a time. Every write of a run is committed before its next checkpoint begins.
-- $1 tenant id, $2 scope, $3 time, $4 new scope, $5 new run
INSERT INTO files (tenant_id, scope, path, content, run_id, turn)
SELECT $1, $4, path, content, $5, 0
  FROM (SELECT DISTINCT ON (path) path, content FROM files
         WHERE tenant_id = $1 AND scope = $2 AND created_at <= $3
         ORDER BY path, version DESC) newest
 WHERE content IS NOT NULL;

-- name: executed_calls :many
-- What a run and those that it was forked from have done, in order; `later` from a turn of the run on.
-- $1 tenant id, $2 run, $3 turn, $4 tools that change nothing
SELECT c.run_id, c.tool_call_id, c.tool_name, c.exec_state, p.depth = 0 AND t.turn >= $3 AS later
  FROM run_chain($1, $2) p
  JOIN tool_calls c ON c.tenant_id = $1 AND c.run_id = p.run_id
 CROSS JOIN LATERAL (SELECT CASE WHEN c.subagent_path = '' THEN c.turn
                                 ELSE split_part(c.subagent_path, '.', 1)::int END AS turn) t
 WHERE t.turn < p.turns AND c.effect <> 'read' AND c.tool_name <> ALL ($4::text[])
   AND c.exec_state IN ('started', 'succeeded', 'failed', 'unknown')
 ORDER BY p.depth DESC, t.turn, c.started_at, c.subagent_path, c.turn, c.call_index;

-- name: replayed_answer :one
-- The answer that a fork takes over in place of asking the model; no row for any other run.
-- $1 tenant id, $2 run
-- opens: content tool_calls replay
SELECT m.content, m.tool_calls, r.replay
  FROM runs r
  JOIN messages m ON m.tenant_id = r.tenant_id AND m.run_id = r.forked_from AND m.seq = r.forked_seq + 1
 WHERE r.tenant_id = $1 AND r.id = $2 AND r.replay IS NOT NULL;

-- name: chain_of_run :many
-- $1 tenant id, $2 run
SELECT run_id, depth, last_seq, turns FROM run_chain($1, $2) ORDER BY depth;

-- name: calls_since :many
-- The main agent's calls since a turn of a run in the chain, with what the model was told of each.
-- $1 tenant id, $2 run, $3 depth of that run in the chain, $4 turn
-- opens: arguments_raw ran_raw result
SELECT (dense_rank() OVER (ORDER BY p.depth DESC, c.turn) - 1)::int AS step, c.call_index, c.tool_call_id, c.tool_name,
       c.arguments_raw, coalesce(c.decided_raw, c.arguments_raw) AS ran_raw, c.decision, c.exec_state,
       m.content AS result, coalesce(m.is_error, false) AS is_error
  FROM run_chain($1, $2) p
  JOIN tool_calls c ON c.tenant_id = $1 AND c.run_id = p.run_id AND c.subagent_path = '' AND c.turn < p.turns
  LEFT JOIN messages m ON m.tenant_id = $1 AND m.run_id = c.run_id AND m.subagent_path = '' AND m.role = 'tool'
                      AND m.tool_call_id = c.tool_call_id
 WHERE p.depth < $3 OR (p.depth = $3 AND c.turn >= $4)
 ORDER BY step, c.call_index;
