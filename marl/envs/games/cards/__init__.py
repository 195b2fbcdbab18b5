"""Small games with hidden cards or dice, all of whose chance is drawn at the start of an episode."""
