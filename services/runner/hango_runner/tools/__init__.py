"""The tools that agents may use: built-in ones, and those of the operator's tool servers."""
