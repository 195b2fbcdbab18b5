"""Figures of many runs for papers: ``marl plot``."""
