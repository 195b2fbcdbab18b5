"""Several runs side by side, over seeds."""
