"""Games on networks: routing with congestion, and matrix games between neighbours of a graph."""
