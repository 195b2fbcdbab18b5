"""Many policies per player: cross-play between them, best responses to them, training against them."""
