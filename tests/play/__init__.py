"""Playing what was learned: one action, many at once, exported files."""
