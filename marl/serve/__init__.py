"""Policies for programs that are not ours: the server, what it plays with and how it learns from them."""
