"""The stack behind `hango up`: two servers and four services, kept alive together."""
