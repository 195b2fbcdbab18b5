"""Imitation, weighted by advantages: MARWIL, behaviour cloning."""
