"""Playing what was learned."""
