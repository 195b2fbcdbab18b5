"""Playing what was learned: one action, many at once, whole episodes, exported files."""
