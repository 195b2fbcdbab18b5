"""The command line: one module per group of commands, ``app`` puts them together."""

from __future__ import annotations


def main() -> None:
    """The ``marl`` command. Imported when it is called: the commands import ``marl.cli.options`` themselves."""
    from marl.cli.app import main as run_app

    run_app()
