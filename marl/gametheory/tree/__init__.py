"""Games in extensive form: trees of small envs, exact best responses, and solvers that work on the sequence form."""
