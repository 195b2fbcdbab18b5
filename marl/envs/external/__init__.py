"""Envs that live in programs which are not ours and report over the network (``env: external``)."""
