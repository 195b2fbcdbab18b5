"""Loggers that keep a run in a service of experiments: Weights & Biases, MLflow."""
