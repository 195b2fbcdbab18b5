"""How far a run's play is from equilibrium: several methods, and the choice among them."""
