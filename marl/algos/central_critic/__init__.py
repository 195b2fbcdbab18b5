"""Stochastic actors with value critics: PG, A2C, A3C, PPO, MAPPO, IMPALA. PPO's clipping: ``losses.py:clipped_loss``."""
