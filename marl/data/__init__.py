"""What flows: batches, episodes, replay, returns."""
