"""The chassis that every hango service stands on."""
