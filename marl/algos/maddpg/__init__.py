"""Deterministic actors with critics of actions."""
