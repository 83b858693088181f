-- The roles stay: they are the cluster's, and the other service may use them.
DROP TABLE api_keys;
DROP TABLE users;
DROP TABLE tenants;
