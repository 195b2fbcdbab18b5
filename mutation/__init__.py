"""How many random changes of the code do the tests notice? ``python -m mutation --n 300 --seed 0``; see docs/testing.md."""
