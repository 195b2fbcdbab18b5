"""``python -m marl``: the ``marl`` command."""

from marl.cli import main

if __name__ == "__main__":
    main()
