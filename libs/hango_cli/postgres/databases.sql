-- Each query returns the statements that are missing, quoted by the server: names and passwords cannot be parameters
-- of DDL. All are safe to repeat.

-- name: groups :many
-- The two roles that every transaction runs in (protocol, section 9).
SELECT format('CREATE ROLE %I NOLOGIN NOINHERIT NOBYPASSRLS', name) AS statement
  FROM unnest(ARRAY['hango_api', 'hango_system']) AS name
 WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name);

-- name: login :many
-- A login that has no rights of its own: it must take one of the two roles for each transaction.
-- $1 login, $2 password
SELECT format(
           CASE WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = $1) THEN 'ALTER' ELSE 'CREATE' END
           || ' ROLE %I LOGIN NOINHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS PASSWORD %L',
           $1::text, $2::text
       ) AS statement
 UNION ALL
SELECT format('GRANT %I TO %I WITH SET TRUE, INHERIT FALSE', name, $1::text)
  FROM unnest(ARRAY['hango_api', 'hango_system']) AS name;

-- name: database :many
-- $1 database, $2 owner
SELECT format('CREATE DATABASE %I OWNER %I', $1::text, $2::text) AS statement
 WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = $1);

-- name: connections :many
-- Only the owner, who needs no grant, and the service may connect.
-- $1 database, $2 the service's login
SELECT format('REVOKE ALL ON DATABASE %I FROM PUBLIC', $1::text) AS statement
 UNION ALL
SELECT format('GRANT CONNECT ON DATABASE %I TO %I', $1::text, $2::text);
