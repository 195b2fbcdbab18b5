"""Board games for two: open ones, and ones whose players do not see each other's stones."""
