-- The audit trail.

-- name: lock_audit_head :one
-- Last of all locks but the outbox's, and short: every writer of the tenant goes through this row. The clock is read
-- after the lock was had, so that times follow the numbers.
-- $1 tenant_id
WITH head AS MATERIALIZED (
    SELECT seq, hash FROM audit_heads WHERE tenant_id = $1 FOR UPDATE
)
SELECT seq, hash, clock_timestamp() AS now FROM head;

-- name: append_audit :exec
-- The rows, and the head behind the last of them.
-- $1 tenant_id, then one array a column: $2 seqs, $3 ids, $4 times, $5 actor kinds, $6 actor ids, $7 actions,
-- $8 target kinds, $9 target ids, $10 run ids, $11 outcomes, $12 details, $13 trace ids, $14 previous hashes, $15 hashes,
-- $16 seq of the last, $17 its hash
WITH head AS (
    UPDATE audit_heads SET seq = $16, hash = $17 WHERE tenant_id = $1
)
INSERT INTO audit_events (tenant_id, seq, id, at, actor_kind, actor_id, action, target_kind, target_id, run_id, outcome,
                          detail, trace_id, prev_hash, hash)
SELECT $1, r.*
  FROM unnest($2::bigint[], $3::uuid[], $4::timestamptz[], $5::text[], $6::uuid[], $7::text[], $8::text[], $9::text[],
              $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[]) AS r;

-- name: recorded :many
-- Which of these events have a row. Asked under the head's lock, so that the answer stands.
-- $1 tenant_id, $2 ids
SELECT id FROM audit_events WHERE tenant_id = $1 AND id = ANY ($2::uuid[]);

-- name: create_audit_head :exec
-- $1 tenant_id, $2 the hash before the first row
INSERT INTO audit_heads (tenant_id, seq, hash) VALUES ($1, 0, $2) ON CONFLICT DO NOTHING;

-- name: list_audit :many
-- $1 tenant_id, $2 run_id or null, $3 target_id or null, $4 action or null, $5 actor_id or null,
-- $6 seq of the last one seen or null, $7 limit
SELECT tenant_id, seq, id, at, actor_kind, actor_id, action, target_kind, target_id, run_id, outcome, detail, trace_id,
       prev_hash, hash
  FROM audit_events
 WHERE tenant_id = $1
   AND ($2::text IS NULL OR run_id = $2)
   AND ($3::text IS NULL OR target_id = $3)
   AND ($4::text IS NULL OR action = $4)
   AND ($5::uuid IS NULL OR actor_id = $5)
   AND ($6::bigint IS NULL OR seq < $6)
 ORDER BY seq DESC
 LIMIT $7;

-- name: lifecycle :many
-- $1 tenant_id, $2 target_id
SELECT tenant_id, seq, id, at, actor_kind, actor_id, action, target_kind, target_id, run_id, outcome, detail, trace_id,
       prev_hash, hash
  FROM audit_events WHERE tenant_id = $1 AND target_id = $2 ORDER BY seq;

-- name: audit_page :many
-- Rows and head in one statement, that is, in one snapshot: on the last page they must agree. A tenant without rows
-- behind $2 gives its head alone.
-- $1 tenant_id, $2 seq of the last one seen, $3 limit
SELECT h.seq AS head_seq, h.hash AS head_hash, e.*
  FROM (SELECT 1) AS one
  LEFT JOIN audit_heads h ON h.tenant_id = $1
  LEFT JOIN LATERAL (
      SELECT tenant_id, seq, id, at, actor_kind, actor_id, action, target_kind, target_id, run_id, outcome, detail,
             trace_id, prev_hash, hash
        FROM audit_events WHERE tenant_id = $1 AND seq > $2 ORDER BY seq LIMIT $3) AS e ON true
 ORDER BY e.seq;

-- name: audited_tenants :many
SELECT id FROM tenants ORDER BY id;

-- name: audit_start :one
-- Where the chain begins now: behind the newest checkpoint.
-- $1 tenant_id
SELECT seq, hash, at, signature, public_key FROM audit_checkpoints WHERE tenant_id = $1 ORDER BY seq DESC LIMIT 1;

-- name: audit_ends :many
-- The newest row of every chain that has one. Over all tenants.
SELECT e.tenant_id, e.seq, e.hash, e.at
  FROM audit_heads h JOIN audit_events e ON e.tenant_id = h.tenant_id AND e.seq = h.seq;

-- name: prunable_audit :one
-- The last row that is old enough, among the first so many; never the newest row of the chain, to which the head is
-- the witness. Asked under the head's lock.
-- $1 tenant_id, $2 older than this, $3 limit
SELECT o.seq, o.hash, o.at
  FROM (SELECT seq, hash, at FROM audit_events WHERE tenant_id = $1 ORDER BY seq LIMIT $3) AS o
 WHERE o.at < clock_timestamp() - $2::interval AND o.seq < (SELECT seq FROM audit_heads WHERE tenant_id = $1)
 ORDER BY o.seq DESC LIMIT 1;

-- name: insert_checkpoint :exec
-- $1 tenant_id, $2 seq, $3 hash, $4 time of the row, $5 signature, $6 public key
INSERT INTO audit_checkpoints (tenant_id, seq, hash, at, signature, public_key) VALUES ($1, $2, $3, $4, $5, $6);

-- name: prune_audit :exec
-- $1 tenant_id, $2 seq of the last row to delete
DELETE FROM audit_events WHERE tenant_id = $1 AND seq <= $2;
