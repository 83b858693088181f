"""What a run and an agent are, whatever holds them."""
