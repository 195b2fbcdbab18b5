"""Many envs, many algorithms, many seeds: the cells of one file, trained, measured and written down as a table."""
