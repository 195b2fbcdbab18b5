"""Command structures: what is inferred, what is refused and why, and the picture."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from marl.envs.games.windy_maze import WindyMaze
from marl.envs.hierarchy.command_graph import command_graph
from marl.envs.hierarchy.env import HierarchicalEnv
from marl.errors import ConfigError

TWO = ["top_level", "low_level"]
THREE = ["top_level", "mid_level", "low_level"]
AGENTS = ["a", "b", "c"]
TEAMS = {"top_level": ["mid_level_x", "mid_level_y"], "mid_level_x": ["a", "b"], "mid_level_y": ["c"]}


def edges(graph: nx.DiGraph[str]) -> list[tuple[str, str]]:
    return sorted(graph.edges)


def test_a_single_base_agent_gets_a_chain() -> None:
    graph = command_graph(THREE, ["walker"], {})
    assert edges(graph) == [("mid_level", "low_level"), ("top_level", "mid_level")]
    assert graph.nodes["low_level"] == {"level": 2, "agent": "walker"}


def test_several_base_agents_get_a_tree_under_one_commander_per_level() -> None:
    graph = command_graph(THREE, AGENTS, {})
    below = [("mid_level", f"low_level_{agent}") for agent in AGENTS]
    assert edges(graph) == sorted([("top_level", "mid_level"), *below])
    assert nx.is_arborescence(graph)


def test_a_given_structure_is_taken_with_a_worker_for_each_base_agent() -> None:
    graph = command_graph(THREE, AGENTS, TEAMS)
    assert list(graph.successors("mid_level_x")) == ["low_level_a", "low_level_b"]
    assert [graph.nodes[name]["level"] for name in ("top_level", "mid_level_y", "low_level_c")] == [0, 1, 2]


def test_two_tops_command_a_team_each() -> None:
    graph = command_graph(TWO, AGENTS, {"top_level_red": ["a"], "top_level_blue": ["b", "c"]})
    assert [name for name in graph if graph.in_degree(name) == 0] == ["top_level_red", "top_level_blue"]


@pytest.mark.parametrize(
    ("levels", "command", "says"),
    [
        (["top_level"], {}, "got 1; a hierarchy has at least two"),
        (["top", "top_level"], {}, "'top' and 'top_level' cannot be told apart by prefix"),
        (["level", "level"], {}, "'level' and 'level' cannot be told apart by prefix"),
        (["level", "".join(["lev", "el"])], {}, "'level' and 'level' cannot be told apart by prefix"),  # equal, another object
        (["top_*", "low_level"], {}, r"'top_\*' is empty or holds one of"),
        (TWO, {"top_level": ["a", "b"]}, "nobody commands the base agent 'c'"),
        (TWO, {"top_level_x": ["a", "b"], "top_level_y": ["b", "c"]}, "'b' has the commanders 'top_level_x' and 'top_level_y'"),
        (TWO, {"top_level": ["a", "b", "c", "c"]}, "commands 'c' twice"),
        (TWO, {"top_level": ["a", "b", "c", "d"]}, r"'d' commands nobody and is no agent of the base env \(a, b, c\)"),
        (TWO, {"top_level": ["a", "b", "c"], "top_level_2": []}, "'top_level_2' commands nobody"),
        (TWO, {"top_level": ["a", "b"], "a": ["c"]}, "'a' is an agent of the base env and cannot command"),
        (THREE, {"top_level": ["mid_level", "c"], "mid_level": ["a", "b"]}, "base agent 'c' skips a level: 1 commanders"),
        (TWO, TEAMS, "'mid_level_x' stands on level 1, but only the levels 0 to 0"),
        (TWO, {"boss": ["a", "b", "c"]}, "'boss' stands on the level 'top_level'.* Call it top_level_boss"),
        (THREE, {"top_level": ["mid_level"], "mid_level": ["a", "b", "c", "top_level"]}, "command each other in a circle"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_wrong_structure_is_refused_with_its_reason(levels: list[str], command: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        command_graph(levels, AGENTS, command)


def test_an_env_that_does_not_know_its_agents_cannot_be_commanded() -> None:
    with pytest.raises(ConfigError, match="does not know its agents in advance"):
        command_graph(TWO, [], {})


def test_a_misspelt_base_agent_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'walker_1'"):
        command_graph(TWO, ["walker_0", "walker_1"], {"top_level": ["walker_0", "walker1"]})


def test_the_drawing_is_a_picture_that_grows_with_the_command(tmp_path: Path) -> None:
    levels = [
        {"name": "top_level", "horizon": 3, "goals": {"changes": [[0.1]]}},
        {"name": "mid_level", "horizon": 3, "goals": {"changes": [[0.1]]}},
        {"name": "low_level"},
    ]
    sizes = []
    for depth in (levels, levels[1:]):
        env = HierarchicalEnv(WindyMaze({}), levels=depth, features=[0])
        png = env.draw_command(tmp_path / "new" / "command.png").read_bytes()
        assert png.startswith(b"\x89PNG")
        sizes.append(struct.unpack(">II", png[16:24]))
    assert sizes[0][1] > sizes[1][1]
    graph = env.command_graph()
    graph.remove_node("low_level")
    assert "low_level" in env.command_graph()  # a copy
