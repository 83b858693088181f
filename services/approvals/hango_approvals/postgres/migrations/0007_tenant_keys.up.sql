-- The keys that tenants' values are sealed with, under the master key. Without its row a tenant's values are erased.
CREATE TABLE tenant_keys (
    tenant_id  uuid PRIMARY KEY,
    wrapped    bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

ALTER TABLE tenant_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenant_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON tenant_keys TO hango_api
    USING (tenant_id = nullif(current_setting('hango.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('hango.tenant', true), '')::uuid);
CREATE POLICY every_tenant ON tenant_keys TO hango_system USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON tenant_keys TO hango_api, hango_system;
-- How an operator erases: as the owner of the database, in this role.
GRANT DELETE ON tenant_keys TO hango_system;
