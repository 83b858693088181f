-- name: pulse :exec
-- Whether the other end is still there. Not an empty statement: asyncpg cannot read the answer to one.
SELECT 1;
