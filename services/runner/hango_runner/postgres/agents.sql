-- name: newest_agent :one
-- FOR UPDATE cannot lock a version that is not there yet: the primary key decides between two that save at once.
-- $1 tenant id, $2 name
SELECT * FROM agents WHERE tenant_id = $1 AND name = $2 ORDER BY version DESC LIMIT 1;

-- name: agent_version :one
-- $1 tenant id, $2 name, $3 version
SELECT * FROM agents WHERE tenant_id = $1 AND name = $2 AND version = $3;

-- name: insert_agent :one
-- $1 tenant id, $2 name, $3 version, $4 spec, $5 its digest, $6 effective rules, $7 warnings, $8 user
INSERT INTO agents (tenant_id, name, version, spec, spec_sha256, interrupt_on, warnings, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT DO NOTHING
RETURNING *;

-- name: list_agents :many
-- The newest version of each, newest first.
-- $1 tenant id, $2 and $3 the last row of the page before (time, name) or null, $4 limit
SELECT * FROM (
    SELECT DISTINCT ON (name) * FROM agents WHERE tenant_id = $1 ORDER BY name, version DESC
) newest
 WHERE deleted_at IS NULL AND ($2::timestamptz IS NULL OR (created_at, name) < ($2, $3::text))
 ORDER BY created_at DESC, name DESC
 LIMIT $4;

-- name: delete_agent :exec
-- $1 tenant id, $2 name
UPDATE agents SET deleted_at = clock_timestamp() WHERE tenant_id = $1 AND name = $2 AND deleted_at IS NULL;
