"""What the service is about, without wire, database or clock."""
