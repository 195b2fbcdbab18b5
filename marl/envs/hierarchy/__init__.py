"""Levels that set goals for each other over a base env."""
