"""Who collects."""
