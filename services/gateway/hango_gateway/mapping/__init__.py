"""Proto to REST JSON and back. Pure."""
