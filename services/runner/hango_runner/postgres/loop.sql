-- Every transition of a worker asks for its epoch AND for state = 'running': a release (T10) does not bump the epoch,
-- so either test alone lets a frozen worker in (suspend.pml, mutants NOSTATE and NOEPOCHBUMP).

-- name: answer_run :one
-- T1b, and T2 with it where the answer suspends at once ($7 not null). The first answer of a fork that replays one was
-- not asked of a model.
-- $1 tenant id, $2 run, $3 epoch, $4 input tokens, $5 output tokens, $6 events, $7 suspension or null
UPDATE runs
   SET turn = turn + 1, next = 'tools', attempts = 0,
       model_calls = model_calls + (turn > 0 OR replay IS NULL)::int,
       input_tokens = input_tokens + $4, output_tokens = output_tokens + $5,
       next_message_seq = next_message_seq + 1, next_event_seq = next_event_seq + $6,
       state = CASE WHEN $7::uuid IS NULL THEN state ELSE 'awaiting_approval' END,
       suspension_id = $7, gen = gen + ($7::uuid IS NOT NULL)::int, suspension_opened_at = NULL,
       lease_owner = CASE WHEN $7::uuid IS NULL THEN lease_owner END,
       lease_until = CASE WHEN $7::uuid IS NULL THEN lease_until END
 WHERE tenant_id = $1 AND id = $2 AND lease_epoch = $3 AND state = 'running'
RETURNING next_message_seq - 1 AS message_seq, next_event_seq - $6::int AS event_seq;

-- name: insert_calls :exec
-- $1 tenant id, $2 run, $3 subagent path, $4 turn, then by call: $5 ids, $6 names, $7 arguments, $8 digests, $9 rulings,
-- $10 kinds, $11 rules, $12 allowed decisions joined by commas, $13 schemas, $14 inputs, $15 states, $16 results;
-- $17 the subagent's `task` call or null
-- seals: $7
-- seals json: $14 $16
INSERT INTO tool_calls (tenant_id, run_id, subagent_path, turn, call_index, tool_call_id, tool_name, arguments_raw,
                        arguments_sha256, ruling, kind, rule, allowed_decisions, parameters, input, exec_state, result,
                        subagent_call_id)
SELECT $1, $2, $3, $4, c.place - 1, c.id, c.name, c.raw, c.digest, c.ruling, c.kind, c.rule::json,
       string_to_array(c.allowed, ','), c.parameters::json, c.input::json, c.state, c.result::json, $17
  FROM unnest($5::text[], $6::text[], $7::bytea[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[],
              $13::text[], $14::text[], $15::text[], $16::text[]) WITH ORDINALITY
       AS c(id, name, raw, digest, ruling, kind, rule, allowed, parameters, input, state, result, place);

-- name: batch_calls :many
-- $1 tenant id, $2 run, $3 subagent path, $4 turn
-- opens: arguments_raw input decided_raw decision_message decision_value result
SELECT * FROM tool_calls
 WHERE tenant_id = $1 AND run_id = $2 AND subagent_path = $3 AND turn = $4
 ORDER BY call_index;

-- name: spent :one
-- How long the run has worked, its pauses left out, and which calls of it people have refused.
-- $1 tenant id, $2 run
-- opens: arguments
SELECT (extract(epoch FROM clock_timestamp() - r.started_at) - coalesce(
           (SELECT sum(CASE e.type WHEN 'run.resumed' THEN 1 ELSE -1 END * extract(epoch FROM e.at))
              FROM run_events e
             WHERE e.tenant_id = r.tenant_id AND e.run_id = r.id AND e.type IN ('run.suspended', 'run.resumed')),
           0))::float8 AS worked,
       refused.tools, refused.arguments
  FROM runs r
 CROSS JOIN LATERAL (
       SELECT array_agg(c.tool_name ORDER BY c.turn, c.call_index) AS tools,
              array_agg(c.arguments_raw ORDER BY c.turn, c.call_index) AS arguments
         FROM tool_calls c
        WHERE c.tenant_id = r.tenant_id AND c.run_id = r.id AND c.decision = 'reject') refused
 WHERE r.tenant_id = $1 AND r.id = $2;

-- name: start_call :one
-- T7. One statement, so that no effect can begin without its row; the run's row is locked first. The digest is that of
-- the bytes about to run: they are the decided ones, or nothing runs. A call started by an older epoch may be
-- started again only where its effect allows that (protocol, section 5).
-- $1 tenant id, $2 run, $3 epoch, $4 subagent path, $5 turn, $6 call index, $7 digest, $8 effect, $9 event
WITH held AS (
    UPDATE runs SET next_event_seq = next_event_seq + 1
     WHERE tenant_id = $1 AND id = $2 AND lease_epoch = $3 AND state = 'running'
    RETURNING next_event_seq - 1 AS seq
), started AS (
    UPDATE tool_calls c
       SET exec_state = 'started', exec_epoch = $3, effect = $8,
           started_at = coalesce(c.started_at, clock_timestamp())
      FROM held
     WHERE c.tenant_id = $1 AND c.run_id = $2 AND c.subagent_path = $4 AND c.turn = $5 AND c.call_index = $6
       AND (c.exec_state = 'none'
            OR (c.exec_state = 'started' AND c.exec_epoch < $3 AND c.effect IN ('read', 'keyed', 'transactional')))
       AND ((c.ruling = 'free' AND c.arguments_sha256 = $7)
            OR (c.decision IN ('approve', 'edit') AND c.decided_sha256 = $7))
    RETURNING c.call_index
), told AS (
    INSERT INTO run_events (tenant_id, run_id, seq, type, data)
    SELECT $1, $2, held.seq, 'tool.started', $9::json FROM held, started
)
SELECT (SELECT count(*) FROM held) AS held, (SELECT count(*) FROM started) AS started;

-- name: finish_call :one
-- T8. A result is true even if the run was cancelled meanwhile: only the epoch that started the call matters. A story
-- that is over gets no further event.
-- $1 tenant id, $2 run, $3 epoch, $4 subagent path, $5 turn, $6 call index, $7 state, $8 result, $9 event
-- seals json: $8
WITH held AS (
    UPDATE runs
       SET next_event_seq = next_event_seq + (state NOT IN ('succeeded', 'failed', 'cancelled'))::int
     WHERE tenant_id = $1 AND id = $2
    RETURNING next_event_seq - 1 AS seq, state NOT IN ('succeeded', 'failed', 'cancelled') AS live
), finished AS (
    UPDATE tool_calls c SET exec_state = $7, result = $8::json, finished_at = clock_timestamp()
      FROM held
     WHERE c.tenant_id = $1 AND c.run_id = $2 AND c.subagent_path = $4 AND c.turn = $5 AND c.call_index = $6
       AND c.exec_epoch = $3 AND c.exec_state IN ('started', 'unknown')
    RETURNING c.call_index
), told AS (
    INSERT INTO run_events (tenant_id, run_id, seq, type, data)
    SELECT $1, $2, held.seq, 'tool.finished', $9::json FROM held, finished WHERE held.live
)
SELECT (SELECT count(*) FROM finished) AS finished;

-- name: give_up_call :one
-- The holder of the run says what became of a call that an older epoch had started, or that cannot be started at all.
-- $1 tenant id, $2 run, $3 epoch, $4 subagent path, $5 turn, $6 call index, $7 state, $8 result, $9 event
-- seals json: $8
WITH held AS (
    UPDATE runs SET next_event_seq = next_event_seq + 1
     WHERE tenant_id = $1 AND id = $2 AND lease_epoch = $3 AND state = 'running'
    RETURNING next_event_seq - 1 AS seq
), given_up AS (
    UPDATE tool_calls c SET exec_state = $7, result = $8::json, finished_at = clock_timestamp()
      FROM held
     WHERE c.tenant_id = $1 AND c.run_id = $2 AND c.subagent_path = $4 AND c.turn = $5 AND c.call_index = $6
       AND (c.exec_state = 'none' OR (c.exec_state = 'started' AND c.exec_epoch < $3))
    RETURNING c.call_index
), told AS (
    INSERT INTO run_events (tenant_id, run_id, seq, type, data)
    SELECT $1, $2, held.seq, 'tool.finished', $9::json FROM held, given_up
)
SELECT (SELECT count(*) FROM held) AS held, (SELECT count(*) FROM given_up) AS given_up;

-- name: finish_batch :one
-- T8b.
-- $1 tenant id, $2 run, $3 epoch, $4 messages, $5 events
UPDATE runs
   SET next = 'model', suspension_id = NULL, next_message_seq = next_message_seq + $4,
       next_event_seq = next_event_seq + $5
 WHERE tenant_id = $1 AND id = $2 AND lease_epoch = $3 AND state = 'running'
RETURNING next_message_seq - $4::int AS message_seq, next_event_seq - $5::int AS event_seq;

-- name: finish_run :one
-- T9, with the last message where there is one ($7 = 1).
-- $1 tenant id, $2 run, $3 epoch, $4 state, $5 failure reason or null, $6 failure message or null, $7 messages,
-- $8 events, $9 output or null, $10 input tokens, $11 output tokens
UPDATE runs
   SET state = $4, failure_reason = $5, failure_message = $6, output = $9::json, finished_at = clock_timestamp(),
       turn = turn + $7, model_calls = model_calls + $7, input_tokens = input_tokens + $10,
       output_tokens = output_tokens + $11, next_message_seq = next_message_seq + $7,
       next_event_seq = next_event_seq + $8, lease_owner = NULL, lease_until = NULL, suspension_id = NULL
 WHERE tenant_id = $1 AND id = $2 AND lease_epoch = $3 AND state = 'running'
RETURNING next_message_seq - $7::int AS message_seq, next_event_seq - $8::int AS event_seq, finished_at;
