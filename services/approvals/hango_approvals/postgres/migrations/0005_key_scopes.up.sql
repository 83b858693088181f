-- A key may be one that only reads.
ALTER TABLE api_keys ADD COLUMN read_only boolean NOT NULL DEFAULT false;
