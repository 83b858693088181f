"""Between the wire and the domain, without side effects."""
