"""Recorded episodes: writing, reading, viewing, and learning from them."""
