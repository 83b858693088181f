DROP TABLE tenant_keys;
