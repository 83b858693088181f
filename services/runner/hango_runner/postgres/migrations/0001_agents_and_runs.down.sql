DROP TABLE outbox, idempotency, run_events, files, checkpoints, tool_calls, messages, runs, threads, agents;
DROP FUNCTION notify_queued();
