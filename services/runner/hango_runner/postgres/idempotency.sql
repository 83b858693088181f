-- name: begin_request :one
-- Waits for whoever is at the same request; a row that is there already is not returned.
-- $1 tenant id, $2 user, $3 route, $4 key, $5 digest
INSERT INTO idempotency (tenant_id, user_id, route, key, digest) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT DO NOTHING
RETURNING key;

-- name: earlier_request :one
-- $1 tenant id, $2 user, $3 route, $4 key
SELECT digest, answer FROM idempotency WHERE tenant_id = $1 AND user_id = $2 AND route = $3 AND key = $4;

-- name: end_request :exec
-- $1 tenant id, $2 user, $3 route, $4 key, $5 answer
UPDATE idempotency SET answer = $5 WHERE tenant_id = $1 AND user_id = $2 AND route = $3 AND key = $4;

-- name: prune_requests :exec
-- $1 limit
DELETE FROM idempotency WHERE ctid IN (
    SELECT ctid FROM idempotency WHERE created_at < clock_timestamp() - interval '24 hours' LIMIT $1);
