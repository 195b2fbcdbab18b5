"""Learning proofs: what the algorithms reach, declared as data, measured over several seeds, kept with the code."""
