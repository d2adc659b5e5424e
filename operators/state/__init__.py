"""State: relations that keep rows once, and arrangements that index them."""
