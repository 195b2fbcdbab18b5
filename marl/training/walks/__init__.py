"""Games of Deep CFR and ESCHER, in which one agent looks for regrets while all others play what they play now."""
