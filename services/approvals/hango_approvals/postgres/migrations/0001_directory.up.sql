-- Tenants, users and API keys; and the two roles every transaction runs in (protocol, section 9). The roles belong to
-- the cluster: the other service's migrator may make them at the same moment.
DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY ['hango_api', 'hango_system'] LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN NOBYPASSRLS', wanted);
            END IF;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;
        END;
        IF NOT pg_has_role(current_user, wanted, 'SET') THEN
            EXECUTE format('GRANT %I TO CURRENT_USER WITH SET TRUE, INHERIT FALSE', wanted);
        END IF;
    END LOOP;
END
$$;

CREATE TABLE tenants (
    id                   uuid PRIMARY KEY,
    name                 text NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9-]{1,63}$'),
    require_second_party boolean NOT NULL DEFAULT false,
    created_at           timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE users (
    id         uuid PRIMARY KEY,
    tenant_id  uuid NOT NULL REFERENCES tenants,
    name       text NOT NULL,
    role       text NOT NULL CHECK (role IN ('member', 'admin', 'owner')),
    disabled   boolean NOT NULL DEFAULT false,
    subject    text,  -- issuer and subject of the OIDC tokens of this user
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (tenant_id, id),
    UNIQUE (tenant_id, name),
    UNIQUE (tenant_id, subject)
);

CREATE TABLE api_keys (
    id            uuid PRIMARY KEY,
    tenant_id     uuid NOT NULL,
    user_id       uuid NOT NULL,
    name          text NOT NULL,
    prefix        text NOT NULL,
    secret_sha256 bytea NOT NULL UNIQUE CHECK (octet_length(secret_sha256) = 32),
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at    timestamptz,
    revoked_at    timestamptz,
    last_used_at  timestamptz,
    UNIQUE (tenant_id, id),
    -- A key can only be a user's of its own tenant.
    FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, id)
);

ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenants FORCE ROW LEVEL SECURITY;
ALTER TABLE users ENABLE ROW LEVEL SECURITY;
ALTER TABLE users FORCE ROW LEVEL SECURITY;
ALTER TABLE api_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE api_keys FORCE ROW LEVEL SECURITY;

CREATE POLICY one_tenant ON tenants TO hango_api
    USING (id = nullif(current_setting('hango.tenant', true), '')::uuid)
    WITH CHECK (id = nullif(current_setting('hango.tenant', true), '')::uuid);
CREATE POLICY one_tenant ON users TO hango_api
    USING (tenant_id = nullif(current_setting('hango.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('hango.tenant', true), '')::uuid);
CREATE POLICY one_tenant ON api_keys TO hango_api
    USING (tenant_id = nullif(current_setting('hango.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('hango.tenant', true), '')::uuid);
CREATE POLICY every_tenant ON tenants TO hango_system USING (true) WITH CHECK (true);
CREATE POLICY every_tenant ON users TO hango_system USING (true) WITH CHECK (true);
CREATE POLICY every_tenant ON api_keys TO hango_system USING (true) WITH CHECK (true);

GRANT SELECT, UPDATE (require_second_party) ON tenants TO hango_api;
GRANT SELECT, INSERT, UPDATE (role, disabled) ON users TO hango_api;
GRANT SELECT, INSERT, UPDATE (revoked_at) ON api_keys TO hango_api;
-- Provisioning, and looking up credentials.
GRANT SELECT, INSERT ON tenants TO hango_system;
GRANT SELECT, INSERT, UPDATE (role) ON users TO hango_system;
GRANT SELECT, INSERT, UPDATE (last_used_at) ON api_keys TO hango_system;
