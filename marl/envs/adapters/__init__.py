"""Envs of other libraries as envs of ours, and ours as theirs."""
