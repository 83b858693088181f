-- A key that was made for reading alone must not be able to do more afterwards.
ALTER TABLE api_keys NO FORCE ROW LEVEL SECURITY;
UPDATE api_keys SET revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE read_only;
ALTER TABLE api_keys FORCE ROW LEVEL SECURITY;
ALTER TABLE api_keys DROP COLUMN read_only;
