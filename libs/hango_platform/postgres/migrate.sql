-- name: lock_migrations :exec
-- $1 a number that every migrator knows; held until the connection ends
SELECT pg_advisory_lock($1);

-- name: create_migrations :exec
CREATE TABLE IF NOT EXISTS schema_migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- name: applied_migrations :many
SELECT version, checksum FROM schema_migrations ORDER BY version;

-- name: record_migration :exec
-- $1 version, $2 name, $3 checksum
INSERT INTO schema_migrations (version, name, checksum) VALUES ($1, $2, $3);

-- name: forget_migration :exec
-- $1 version
DELETE FROM schema_migrations WHERE version = $1;
