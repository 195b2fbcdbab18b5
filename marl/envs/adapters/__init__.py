"""Envs of other libraries as worlds of ours, and ours as theirs."""
