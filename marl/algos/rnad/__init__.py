"""Regularised Nash dynamics: R-NaD, of DeepNash."""
