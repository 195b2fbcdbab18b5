"""What the processes of ``marl watch`` do: one module for each view that needs them."""
