"""Attacks on the package from outside: kills, damaged files, forged files, mutated input (``make siege``)."""
