"""The service's database: its statements, its schema, its migrations."""
