"""Deterministic actors with critics of actions: DDPG, TD3, MADDPG."""
