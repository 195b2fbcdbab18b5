"""Measuring instruments of the repository: they read or trace the package and are not part of it."""
