"""The outbox: what must be told to others is written with the change itself, and sent until it is
taken.
"""
