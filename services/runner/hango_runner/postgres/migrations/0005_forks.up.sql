-- A fork goes on from a point of another run: it has that run's messages up to `forked_seq` and its calls before
-- `forked_turn` in common, and copies none of them. `replay`: the run takes the original's next answer in place of
-- asking the model; the object holds the calls whose arguments a person changed, by id.
ALTER TABLE runs
    ADD COLUMN forked_seq bigint,
    ADD COLUMN forked_turn integer,
    ADD COLUMN replay json,
    ADD CONSTRAINT runs_forked CHECK ((forked_from IS NULL) = (forked_seq IS NULL)
                                      AND (forked_from IS NULL) = (forked_turn IS NULL)
                                      AND (replay IS NULL OR forked_from IS NOT NULL));

-- A run (depth 0) and those that it was forked from, the nearest first: the last message and the number of turns of
-- each that belong to the run's own past.
CREATE FUNCTION run_chain(of_tenant uuid, of_run uuid)
RETURNS TABLE (run_id uuid, depth integer, last_seq bigint, turns integer) LANGUAGE sql STABLE AS $$
    WITH RECURSIVE chain AS (
        SELECT r.id, 0 AS depth, 9223372036854775807 AS last_seq, 2147483647 AS turns,
               r.forked_from, r.forked_seq, r.forked_turn
          FROM runs r WHERE r.tenant_id = of_tenant AND r.id = of_run
        UNION ALL
        SELECT r.id, c.depth + 1, c.forked_seq, c.forked_turn, r.forked_from, r.forked_seq, r.forked_turn
          FROM chain c JOIN runs r ON r.tenant_id = of_tenant AND r.id = c.forked_from
    )
    SELECT id, depth, last_seq, turns FROM chain
$$;

DROP INDEX checkpoints_of_run;
CREATE INDEX checkpoints_of_run ON checkpoints (run_id, message_count);
CREATE INDEX threads_newest ON threads (tenant_id, created_at DESC, id DESC);
CREATE INDEX threads_of_creator ON threads (tenant_id, created_by, created_at DESC, id DESC);
