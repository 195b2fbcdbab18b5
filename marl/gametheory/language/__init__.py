"""Language models as players: what they are asked, how they are read, and how exploitable they are."""
