"""What the processes of the page do: tasks, see ``workers.py``."""
