"""Action values, mixed or apart."""
