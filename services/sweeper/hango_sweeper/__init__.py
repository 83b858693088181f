"""The clock: calls the owners' maintenance methods on an interval, and owns nothing."""
