"""The `hango` command, and the embedded servers it runs on."""
