"""What to do: the scenario file and its keys."""
