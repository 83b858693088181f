-- The keys that values are sealed with, each under the master key.

-- name: read_tenant_key :one
-- $1 tenant_id
SELECT wrapped FROM tenant_keys WHERE tenant_id = $1;

-- name: add_tenant_key :exec
-- Who comes second waits for the first, and then finds his.
-- $1 tenant_id, $2 the key under the master key
INSERT INTO tenant_keys (tenant_id, wrapped) VALUES ($1, $2) ON CONFLICT DO NOTHING;
