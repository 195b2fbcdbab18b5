"""Games that people play against policies, and against each other."""
