-- name: list_threads :many
-- $1 tenant id, $2 only this creator's or null, $3 and $4 the last row of the page before (time, id) or null, $5 limit
SELECT t.id, t.agent, t.created_by, t.created_at,
       (SELECT count(*) FROM runs r WHERE r.tenant_id = $1 AND r.thread_id = t.id)::int AS runs,
       (SELECT r.id FROM runs r WHERE r.tenant_id = $1 AND r.thread_id = t.id
                                  AND r.state NOT IN ('succeeded', 'failed', 'cancelled')) AS live_run_id
  FROM threads t
 WHERE t.tenant_id = $1
   AND ($2::uuid IS NULL OR t.created_by = $2)
   AND ($3::timestamptz IS NULL OR (t.created_at, t.id) < ($3, $4::text))
 ORDER BY t.created_at DESC, t.id DESC
 LIMIT $5;

-- name: get_thread :one
-- $1 tenant id, $2 thread
SELECT t.id, t.agent, t.created_by, t.created_at,
       (SELECT count(*) FROM runs r WHERE r.tenant_id = $1 AND r.thread_id = t.id)::int AS runs,
       (SELECT r.id FROM runs r WHERE r.tenant_id = $1 AND r.thread_id = t.id
                                  AND r.state NOT IN ('succeeded', 'failed', 'cancelled')) AS live_run_id
  FROM threads t
 WHERE t.tenant_id = $1 AND t.id = $2;

-- name: thread_messages :many
-- What people and the main agent said, over all runs.
-- $1 tenant id, $2 thread, $3 only this creator's runs or null, $4 and $5 and $6 the last row of the page before (time
-- of the run, run, number) or null, $7 limit
-- opens: content tool_calls
SELECT r.id AS run_id, r.created_at AS run_created_at, m.seq, m.role, m.content, m.tool_calls, m.tool_call_id,
       m.tool_name, m.is_error, m.created_at, NULL::text AS subagent_call_id
  FROM runs r
  JOIN messages m ON m.tenant_id = $1 AND m.run_id = r.id AND m.subagent_path = ''
 WHERE r.tenant_id = $1 AND r.thread_id = $2 AND ($3::uuid IS NULL OR r.created_by = $3)
   AND ($4::timestamptz IS NULL OR (r.created_at, r.id, m.seq) > ($4, $5::uuid, $6::bigint))
 ORDER BY r.created_at, r.id, m.seq
 LIMIT $7;
