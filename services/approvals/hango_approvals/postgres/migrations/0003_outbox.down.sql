DROP TABLE idempotency;
DROP TABLE outbox;
