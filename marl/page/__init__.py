"""The page of ``marl watch``: what a browser gets, and any view of it as one file."""
