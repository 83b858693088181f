"""The rules of approval as pure functions: what is asked, what is gated, what may be edited.

No I/O, no clock, no wire format. The runner judges with it, the approvals service checks edits
with it, the gateway cuts request bodies with it, so that all three mean the same thing.
"""
