-- Tenants, users and keys.

-- name: find_credential :one
-- One indexed look-up whatever the outcome. Over all tenants: whose it is, is what is asked.
-- $1 digest of the secret
SELECT k.id AS key_id, k.expires_at, u.id AS user_id, u.name AS user_name, u.role, t.id AS tenant_id, t.name AS tenant,
       k.read_only, t.require_second_party,
       coalesce(k.last_used_at < clock_timestamp() - interval '1 minute', true) AS unseen
  FROM api_keys k JOIN users u ON u.id = k.user_id JOIN tenants t ON t.id = k.tenant_id
 WHERE k.secret_sha256 = $1 AND k.revoked_at IS NULL AND NOT u.disabled
   AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp());

-- name: find_federated :one
-- The tenant, and the user that a token speaks of, if he was seen before. Over all tenants, like any credential.
-- $1 name of the tenant, $2 subject
SELECT t.id AS tenant_id, t.require_second_party, u.id, u.name, u.role, u.disabled, u.created_at
  FROM tenants t LEFT JOIN users u ON u.tenant_id = t.id AND u.subject = $2
 WHERE t.name = $1;

-- name: insert_federated :one
-- Where the name or the subject is taken nothing comes back.
-- $1 id, $2 tenant_id, $3 name, $4 role, $5 subject
INSERT INTO users (id, tenant_id, name, role, subject) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT DO NOTHING
RETURNING id, name, role, disabled, created_at;

-- name: set_role :exec
-- $1 tenant_id, $2 user_id, $3 role
UPDATE users SET role = $3 WHERE tenant_id = $1 AND id = $2;

-- name: touch_keys :exec
-- $1 key ids
UPDATE api_keys SET last_used_at = clock_timestamp() WHERE id = ANY ($1::uuid[]);

-- name: find_member :one
-- A user who acts, with what his tenant demands.
-- $1 tenant_id, $2 user_id
SELECT u.role, u.disabled, t.require_second_party
  FROM users u JOIN tenants t ON t.id = u.tenant_id
 WHERE u.tenant_id = $1 AND u.id = $2;

-- name: find_approver :one
-- $1 tenant_id, $2 the user who does not count
SELECT EXISTS (
    SELECT FROM users
     WHERE tenant_id = $1 AND id <> $2 AND role IN ('admin', 'owner') AND NOT disabled) AS found;

-- name: lock_owners :many
-- So that two owners cannot take the last right from each other at the same moment.
-- $1 tenant_id
SELECT id FROM users WHERE tenant_id = $1 AND role = 'owner' AND NOT disabled ORDER BY id FOR UPDATE;

-- name: insert_user :one
-- Where the name is taken nothing comes back.
-- $1 id, $2 tenant_id, $3 name, $4 role
INSERT INTO users (id, tenant_id, name, role) VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING
RETURNING id, name, role, disabled, created_at;

-- name: find_user_by_name :one
-- $1 tenant_id, $2 name
SELECT id, name, role, disabled, created_at FROM users WHERE tenant_id = $1 AND name = $2;

-- name: lock_user :one
-- $1 tenant_id, $2 user_id
SELECT id, name, role, disabled, created_at FROM users WHERE tenant_id = $1 AND id = $2 FOR UPDATE;

-- name: update_user :one
-- $1 tenant_id, $2 user_id, $3 role, $4 disabled
UPDATE users SET role = $3, disabled = $4 WHERE tenant_id = $1 AND id = $2
RETURNING id, name, role, disabled, created_at;

-- name: list_users :many
-- Ids sort by time.
-- $1 tenant_id, $2 the last id seen or null, $3 limit
SELECT id, name, role, disabled, created_at
  FROM users WHERE tenant_id = $1 AND ($2::uuid IS NULL OR id < $2) ORDER BY id DESC LIMIT $3;

-- name: insert_key :one
-- Where the secret is known already nothing comes back.
-- $1 id, $2 tenant_id, $3 user_id, $4 name, $5 prefix, $6 digest of the secret, $7 expires_at or null,
-- $8 read_only
INSERT INTO api_keys (id, tenant_id, user_id, name, prefix, secret_sha256, expires_at, read_only)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (secret_sha256) DO NOTHING
RETURNING id, user_id, name, prefix, created_at, expires_at, revoked_at, last_used_at, read_only;

-- name: key_holder :one
-- $1 digest of the secret
SELECT user_id FROM api_keys WHERE secret_sha256 = $1;

-- name: lock_key :one
-- $1 tenant_id, $2 key_id
SELECT k.id, k.user_id, k.name, k.prefix, k.created_at, k.expires_at, k.revoked_at, k.last_used_at, k.read_only, u.role
  FROM api_keys k JOIN users u ON u.id = k.user_id
 WHERE k.tenant_id = $1 AND k.id = $2 FOR UPDATE OF k;

-- name: revoke_key :one
-- $1 tenant_id, $2 key_id
UPDATE api_keys SET revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE tenant_id = $1 AND id = $2
RETURNING id, user_id, name, prefix, created_at, expires_at, revoked_at, last_used_at, read_only;

-- name: list_keys :many
-- $1 tenant_id, $2 the last id seen or null, $3 limit
SELECT id, user_id, name, prefix, created_at, expires_at, revoked_at, last_used_at, read_only
  FROM api_keys WHERE tenant_id = $1 AND ($2::uuid IS NULL OR id < $2) ORDER BY id DESC LIMIT $3;

-- name: read_tenant :one
-- $1 tenant_id
SELECT id, name, require_second_party, created_at FROM tenants WHERE id = $1;

-- name: update_tenant :one
-- $1 tenant_id, $2 require_second_party
UPDATE tenants SET require_second_party = $2 WHERE id = $1
RETURNING id, name, require_second_party, created_at;

-- name: insert_tenant :one
-- $1 id, $2 name
INSERT INTO tenants (id, name) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING RETURNING id;

-- name: find_tenant :one
-- $1 name
SELECT id, name, require_second_party, created_at FROM tenants WHERE name = $1;
