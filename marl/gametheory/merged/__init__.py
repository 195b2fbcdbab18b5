"""Games in which equal positions are one: exact best responses without a tree."""
