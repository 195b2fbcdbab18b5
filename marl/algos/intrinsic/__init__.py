"""Rewards that a learner pays itself for what is new to it."""
