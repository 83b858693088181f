"""What the stack does in PostgreSQL before the services do."""
