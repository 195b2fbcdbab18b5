"""What a trainer does between iterations beside learning; each part owns its state."""
