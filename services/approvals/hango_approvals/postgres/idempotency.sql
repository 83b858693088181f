-- What was answered to whom under which key.

-- name: recall :one
-- Read after the suspension was locked: a repeat that raced with the first request has waited for it there.
-- $1 tenant_id, $2 user_id, $3 route, $4 key
SELECT request_digest, suspension_id, resume_event_id
  FROM idempotency
 WHERE tenant_id = $1 AND user_id = $2 AND route = $3 AND key = $4
   AND created_at > clock_timestamp() - interval '24 hours';

-- name: remember :exec
-- A record that is there is older than a day.
-- $1 tenant_id, $2 user_id, $3 route, $4 key, $5 request_digest, $6 suspension_id, $7 resume_event_id
INSERT INTO idempotency (tenant_id, user_id, route, key, request_digest, suspension_id, resume_event_id)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (tenant_id, user_id, route, key) DO UPDATE
   SET request_digest = excluded.request_digest, suspension_id = excluded.suspension_id,
       resume_event_id = excluded.resume_event_id, created_at = clock_timestamp();

-- name: prune_idempotency :exec
-- $1 limit
DELETE FROM idempotency WHERE (tenant_id, user_id, route, key) IN (
    SELECT tenant_id, user_id, route, key FROM idempotency
     WHERE created_at < clock_timestamp() - interval '24 hours' LIMIT $1);
