-- A subagent's steps are fenced by the run's row like the main agent's: the same epoch, the same state.

-- name: subagent :one
-- $1 tenant id, $2 run, $3 path
SELECT turn, next FROM subagent_calls WHERE tenant_id = $1 AND run_id = $2 AND path = $3;

-- name: enter_subagent :one
-- A subagent begins: its row, and room for its first message and the event that tells of it.
-- $1 tenant id, $2 run, $3 epoch, $4 path, $5 name
WITH held AS (
    UPDATE runs SET next_message_seq = next_message_seq + 1, next_event_seq = next_event_seq + 1
     WHERE tenant_id = $1 AND id = $2 AND lease_epoch = $3 AND state = 'running'
    RETURNING next_message_seq - 1 AS message_seq, next_event_seq - 1 AS event_seq
), made AS (
    INSERT INTO subagent_calls (tenant_id, run_id, path, name) SELECT $1, $2, $4, $5 FROM held
)
SELECT message_seq, event_seq FROM held;

-- name: answer_subagent :one
-- T1b of a subagent. What waits for people is suspended later, with all that waits beside it (protocol, section 3.5).
-- $1 tenant id, $2 run, $3 epoch, $4 input tokens, $5 output tokens, $6 path, $7 what is next
WITH held AS (
    UPDATE runs
       SET attempts = 0, model_calls = model_calls + 1, input_tokens = input_tokens + $4,
           output_tokens = output_tokens + $5, next_message_seq = next_message_seq + 1,
           next_event_seq = next_event_seq + 1
     WHERE tenant_id = $1 AND id = $2 AND lease_epoch = $3 AND state = 'running'
    RETURNING next_message_seq - 1 AS message_seq, next_event_seq - 1 AS event_seq
), child AS (
    UPDATE subagent_calls s SET turn = s.turn + 1, next = $7
      FROM held WHERE s.tenant_id = $1 AND s.run_id = $2 AND s.path = $6
)
SELECT message_seq, event_seq FROM held;

-- name: finish_subagent_batch :one
-- T8b of a subagent.
-- $1 tenant id, $2 run, $3 epoch, $4 messages, $5 events, $6 path
WITH held AS (
    UPDATE runs SET next_message_seq = next_message_seq + $4, next_event_seq = next_event_seq + $5
     WHERE tenant_id = $1 AND id = $2 AND lease_epoch = $3 AND state = 'running'
    RETURNING next_message_seq - $4::int AS message_seq, next_event_seq - $5::int AS event_seq
), child AS (
    UPDATE subagent_calls s SET next = 'model'
      FROM held WHERE s.tenant_id = $1 AND s.run_id = $2 AND s.path = $6
)
SELECT message_seq, event_seq FROM held;

-- name: suspend_run :one
-- T2 alone: what waits is below a `task` call, and its answers are stored already.
-- $1 tenant id, $2 run, $3 epoch, $4 suspension
UPDATE runs
   SET state = 'awaiting_approval', suspension_id = $4, gen = gen + 1, suspension_opened_at = NULL,
       lease_owner = NULL, lease_until = NULL
 WHERE tenant_id = $1 AND id = $2 AND lease_epoch = $3 AND state = 'running'
RETURNING id;

-- name: subagent_messages :many
-- $1 tenant id, $2 run, $3 path
-- opens: content tool_calls
SELECT role, content, tool_calls, tool_call_id, tool_name, is_error, NULL AS ended, NULL AS outcomes
  FROM messages
 WHERE tenant_id = $1 AND run_id = $2 AND subagent_path = $3
 ORDER BY seq;
