"""The runner's side of PostgreSQL: statements, transitions, migrations."""
