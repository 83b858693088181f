-- name: insert_outbox :exec
-- A row is born leased to the process that writes it, which sends it right after its commit without asking the
-- database again. Where that process dies, or cannot send, the lease runs out and any relay claims the row. Some ids
-- are derived from what is told: a fact that is told again (a call that is started a second time) is there already.
-- $1 ids, $2 tenant ids, $3 kinds, $4 keys, $5 payloads, $6 traceparents, $7 lease
INSERT INTO outbox (id, tenant_id, kind, key, payload, traceparent, leased_until)
SELECT r.id, r.tenant_id, r.kind, r.key, r.payload, r.traceparent, clock_timestamp() + $7::interval
  FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::bytea[], $6::text[])
    AS r(id, tenant_id, kind, key, payload, traceparent)
ON CONFLICT DO NOTHING;

-- name: claim_outbox :many
-- SKIP LOCKED, so that two relays share the work. The claim is a lease and not an open transaction: sending may take
-- long, and a relay that dies in it loses the lease by time alone. What decides is `published_at`, never a high-water
-- mark of ids: commit order is not id order.
-- $1 kinds, $2 limit, $3 lease
WITH due AS (
    SELECT id FROM outbox
     WHERE published_at IS NULL AND dead_at IS NULL AND leased_until < clock_timestamp() AND kind = ANY ($1::text[])
     ORDER BY leased_until
     LIMIT $2 FOR UPDATE SKIP LOCKED
)
UPDATE outbox o SET leased_until = clock_timestamp() + $3::interval
  FROM due WHERE o.id = due.id
RETURNING o.id, o.tenant_id, o.kind, o.key, o.payload, o.traceparent;

-- name: mark_published :exec
-- $1 ids
UPDATE outbox SET published_at = clock_timestamp() WHERE id = ANY ($1::uuid[]) AND published_at IS NULL;

-- name: mark_refused :exec
-- Only a refusal of the row itself counts: 20 of them make it a dead letter, and nobody waits for it any more.
-- $1 id, $2 what was said
UPDATE outbox
   SET attempts = attempts + 1, last_error = $2,
       leased_until = clock_timestamp() + least(power(2, attempts), 60) * interval '1 second',
       dead_at = CASE WHEN attempts + 1 >= 20 THEN clock_timestamp() END
 WHERE id = $1 AND published_at IS NULL;

-- name: outbox_backlog :one
SELECT count(*) FILTER (WHERE dead_at IS NULL) AS backlog,
       coalesce(extract(epoch FROM clock_timestamp() - min(created_at) FILTER (WHERE dead_at IS NULL)), 0)::float8
           AS oldest_age,
       count(*) FILTER (WHERE dead_at IS NOT NULL) AS dead
  FROM outbox WHERE published_at IS NULL;

-- name: prune_outbox :exec
-- $1 limit
DELETE FROM outbox WHERE id IN (
    SELECT id FROM outbox WHERE published_at < clock_timestamp() - interval '24 hours' LIMIT $1);
