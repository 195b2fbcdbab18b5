"""Games in the results folder: populations, reports and cross-plays, and the matches behind their payoffs."""
