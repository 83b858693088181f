ALTER TABLE runs
    DROP CONSTRAINT runs_state,
    ADD CONSTRAINT runs_state CHECK (state IN
        ('queued', 'running', 'awaiting_approval', 'succeeded', 'failed', 'cancelled')),
    ADD COLUMN gen integer NOT NULL DEFAULT 0,
    ADD COLUMN suspension_id uuid,
    ADD COLUMN suspension_opened_at timestamptz,
    ADD COLUMN awaiting_since timestamptz,
    ADD CONSTRAINT runs_awaiting CHECK (state <> 'awaiting_approval' OR suspension_id IS NOT NULL);
CREATE INDEX runs_awaiting ON runs (awaiting_since) WHERE state = 'awaiting_approval';
