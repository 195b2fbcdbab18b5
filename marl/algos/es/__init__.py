"""Evolution strategies: learning from returns alone."""
