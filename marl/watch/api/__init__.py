"""What the views ask for: one module for each, with `add(api, desk)`."""
