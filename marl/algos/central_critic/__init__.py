"""Stochastic actors with value critics."""
