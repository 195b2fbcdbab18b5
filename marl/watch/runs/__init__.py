"""The runs of the results folder as the page shows them: which there are, their curves, and starting and stopping them."""
