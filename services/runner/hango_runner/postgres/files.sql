-- name: read_file :one
-- $1 tenant id, $2 scope, $3 path
SELECT content FROM files WHERE tenant_id = $1 AND scope = $2 AND path = $3 ORDER BY version DESC LIMIT 1;

-- name: write_file :exec
-- $1 tenant id, $2 scope, $3 path, $4 content or null for none, $5 run, $6 turn
INSERT INTO files (tenant_id, scope, path, content, run_id, turn) VALUES ($1, $2, $3, $4, $5, $6);

-- name: files_below :many
-- $1 tenant id, $2 scopes, $3 folder, ending in a slash; itself without it too
SELECT path, content FROM (
    SELECT DISTINCT ON (scope, path) scope, path, content FROM files
     WHERE tenant_id = $1 AND scope = ANY ($2::text[])
       AND (starts_with(path, $3) OR path || '/' = $3)
     ORDER BY scope, path, version DESC
) newest
 WHERE content IS NOT NULL ORDER BY path;

-- name: kept_files :many
-- What an agent is reminded of when a run is taken up: its notes whole, and how each of its skills begins. One more
-- than are listed, so that it can be told that there are more.
-- $1 tenant id, $2 the agent's scope, $3 the notes' path
SELECT path, CASE WHEN path = $3 THEN content ELSE left(content, 4096) END AS content FROM (
    SELECT DISTINCT ON (path) path, content FROM files
     WHERE tenant_id = $1 AND scope = $2 AND (path = $3 OR path ~ '^/skills/[^/]+/SKILL\.md$')
     ORDER BY path, version DESC
) newest
 WHERE content IS NOT NULL ORDER BY path LIMIT 102;
