"""Games in extensive form: trees of small worlds, exact best responses, and solvers that work on the sequence form."""
