"""Looking at trained runs: cross-play between checkpoints, exploitability, rankings, one report."""
