ALTER TABLE messages DROP COLUMN subagent_call_id;
ALTER TABLE tool_calls DROP COLUMN subagent_call_id;
DROP TABLE subagent_calls;
