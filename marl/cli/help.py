"""The help of ``marl``: commands by what they are for, each with its whole first sentence."""

from __future__ import annotations

import inspect
from typing import Any

from typer.core import TyperGroup

TRAIN = "Train"
PLAY = "Play what was trained"
GAMES = "Games and players"
RESULTS = "Look at results"
BEGIN = "Begin, and look things up"
SPEED = "Speed and trouble"
PANELS = (TRAIN, PLAY, GAMES, RESULTS, BEGIN, SPEED)


class GroupedCommands(TyperGroup):
    """Lists commands under the panels that they were registered with (``rich_help_panel``), in that order.

    By itself, click cuts what a command says off at the end of a line; here it is wrapped. Its classes have no names that
    all versions of typer share, hence ``Any``.
    """

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        by_panel: dict[str, list[tuple[str, str]]] = {panel: [] for panel in PANELS}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is None or command.hidden:
                continue
            panel = _panel(command)
            by_panel[panel].append((name, first_paragraph(command)))
        for panel, rows in by_panel.items():
            if not rows:
                continue
            with formatter.section(panel):
                formatter.write_dl(rows, col_max=20)


def _panel(command: Any) -> str:
    """Commands that say nothing, or something else, come last."""
    panel = getattr(command, "rich_help_panel", None)
    if panel in PANELS:
        return str(panel)
    return PANELS[-1]


def first_paragraph(command: Any) -> str:
    text = inspect.cleandoc(command.help or "")
    return " ".join(text.partition("\n\n")[0].split())
