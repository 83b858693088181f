"""PostgreSQL: connections, transactions, named queries, migrations."""
