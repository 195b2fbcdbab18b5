"""The user's own code at the turning points of a run, and the running episode that it sees."""
