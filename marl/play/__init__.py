"""Playing what was learned: one action, whole episodes, videos, exported policies."""
