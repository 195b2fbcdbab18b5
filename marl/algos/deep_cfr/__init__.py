"""Counterfactual regret minimisation with networks: Deep CFR and ESCHER."""
