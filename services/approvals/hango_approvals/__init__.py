"""The approvals service: authority on verdicts, deadlines, the directory and the audit."""
