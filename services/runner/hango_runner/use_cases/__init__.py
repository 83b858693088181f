"""What R does for people and for A: each a rule and its transactions."""
