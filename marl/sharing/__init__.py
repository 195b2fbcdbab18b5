"""Trained policies for others: a model card, and the way to the Hugging Face Hub and back."""
