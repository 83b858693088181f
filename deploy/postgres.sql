-- What a PostgreSQL (16 or later) needs before `hango migrate`: two databases, each with its owner and its service's
-- login. For psql, as a superuser, once, with the four passwords in the environment:
--   APPROVALS_OWNER_PASSWORD APPROVALS_PASSWORD RUNNER_OWNER_PASSWORD RUNNER_PASSWORD
\set ON_ERROR_STOP on
\getenv approvals_owner_password APPROVALS_OWNER_PASSWORD
\getenv approvals_password APPROVALS_PASSWORD
\getenv runner_owner_password RUNNER_OWNER_PASSWORD
\getenv runner_password RUNNER_PASSWORD

-- The two roles that every transaction runs in. They own nothing and cannot bypass row level security.
CREATE ROLE hango_api NOLOGIN NOINHERIT NOBYPASSRLS;
CREATE ROLE hango_system NOLOGIN NOINHERIT NOBYPASSRLS;

-- Owners migrate; services serve. A login has no rights of its own: it must take one of the two roles.
CREATE ROLE hango_approvals_owner LOGIN NOINHERIT PASSWORD :'approvals_owner_password';
CREATE ROLE hango_approvals LOGIN NOINHERIT PASSWORD :'approvals_password';
CREATE ROLE hango_runner_owner LOGIN NOINHERIT PASSWORD :'runner_owner_password';
CREATE ROLE hango_runner LOGIN NOINHERIT PASSWORD :'runner_password';
GRANT hango_api, hango_system
   TO hango_approvals_owner, hango_approvals, hango_runner_owner, hango_runner WITH SET TRUE, INHERIT FALSE;

-- Only its owner and its service may connect to a database.
CREATE DATABASE hango_approvals OWNER hango_approvals_owner;
CREATE DATABASE hango_runner OWNER hango_runner_owner;
REVOKE ALL ON DATABASE hango_approvals, hango_runner FROM PUBLIC;
GRANT CONNECT ON DATABASE hango_approvals TO hango_approvals;
GRANT CONNECT ON DATABASE hango_runner TO hango_runner;
