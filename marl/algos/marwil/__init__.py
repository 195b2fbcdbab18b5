"""Imitation, weighted by advantages."""
