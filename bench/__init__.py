"""Measurements against a running hango: `python -m bench --help`."""
