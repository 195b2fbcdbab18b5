"""Learning proofs: what the algorithms reach, declared as data, measured over several seeds and kept beside the code."""
