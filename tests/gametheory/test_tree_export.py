"""Graphs, pictures and Gambit files of trees."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from marl.errors import ConfigError
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.export import draw_tree, exact_fractions, to_efg, to_networkx, write_efg
from marl.gametheory.tree.response import expected_values
from marl.gametheory.tree.value import equilibrium

from .trees import Guess, random_strategy

TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|([^\s{},]+)')


class EfgReader:
    """An independent reader: walks the lines recursively and evaluates a strategy on the way."""

    def __init__(self, text: str, strategy: dict[tuple[int, int], list[float]]) -> None:
        head, _, _, *body = text.splitlines()
        assert head.startswith("EFG 2 R ")
        self.players = [quoted for quoted, _ in TOKEN.findall(head.split("{")[1])]
        self.lines, self.strategy = iter(body), strategy
        self.sets: dict[tuple[int, int], int] = {}
        self.nodes = 0

    def value(self) -> np.ndarray:
        line = next(self.lines)
        self.nodes += 1
        before, inside = line.split("{")
        words = [plain for _, plain in TOKEN.findall(before) if plain]
        if words[0] == "t":
            return np.array([float(plain) for _, plain in TOKEN.findall(inside.split("}")[0]) if plain])
        tokens = TOKEN.findall(inside.split("}")[0])
        if words[0] == "c":
            chances = [float(Fraction(plain)) for _, plain in tokens if plain]
            assert sum(Fraction(plain) for _, plain in tokens if plain) == 1
        else:
            key = (int(words[1]), int(words[2]))
            assert self.sets.setdefault(key, len(tokens)) == len(tokens)
            chances = self.strategy[key]
        return sum(chance * self.value() for chance in chances)  # type: ignore[return-value]


def by_set(tree, strategy) -> dict[tuple[int, int], list[float]]:
    """The strategy by Gambit's numbers of player and information set, from 1."""
    found, sets = {}, tree.sets
    for i in range(len(sets)):
        player = int(sets.player[i])
        at = sets.first_choice[i]
        number = i - int(np.flatnonzero(sets.player == player)[0]) + 1
        found[player + 1, number] = strategy[at : at + sets.num_actions[i]].tolist()
    return found


@pytest.mark.parametrize("env", ["kuhn_poker", "leduc_poker", "two_step_game", Guess])
def test_efg_text_read_by_another_reader_is_the_same_game(env) -> None:
    tree = build_tree(env)
    strategy = random_strategy(tree, 5)
    reader = EfgReader(to_efg(tree), by_set(tree, strategy))
    assert reader.value() == pytest.approx(expected_values(tree, strategy), abs=1e-6)
    assert reader.players == list(tree.players)
    assert reader.nodes == len(tree)
    assert len(reader.sets) == len(tree.sets)
    ends = [line.split()[2] for line in to_efg(tree).splitlines() if line.startswith("t ")]
    assert ends == [str(number) for number in range(1, len(ends) + 1)]  # every end has an outcome of its own
    chances = [line.split()[2] for line in to_efg(tree).splitlines() if line.startswith("c ")]
    assert chances == [str(number) for number in range(1, len(chances) + 1)]


def test_efg_of_kuhn_at_equilibrium_is_worth_minus_one_eighteenth(tmp_path: Path) -> None:
    tree = build_tree("kuhn_poker", action_names=("pass", "bet"))
    text = write_efg(tree, tmp_path / "kuhn.efg").read_text()
    assert text.splitlines()[0] == 'EFG 2 R "kuhn_poker" { "player_0" "player_1" }'
    assert '{ "pass" "bet" } 0' in text
    assert EfgReader(text, by_set(tree, equilibrium(tree).strategy)).value()[0] == pytest.approx(-1 / 18, abs=1e-9)


def test_gambit_reads_the_file_and_finds_the_value(tmp_path: Path) -> None:
    gambit = pytest.importorskip("pygambit")
    game = gambit.read_efg(str(write_efg(build_tree("kuhn_poker"), tmp_path / "kuhn.efg")))
    found = gambit.nash.lp_solve(game).equilibria[0]
    assert float(found.payoff(game.players[0])) == pytest.approx(-1 / 18)


def test_fractions_sum_to_exactly_one() -> None:
    assert exact_fractions([1 / 3, 1 / 3, 1 / 3]) == [Fraction(1, 3)] * 3
    odd = exact_fractions(np.random.default_rng(0).dirichlet(np.ones(7)).tolist())
    assert sum(odd) == 1


def test_graph_is_a_tree_with_players_actions_and_chances() -> None:
    tree = build_tree("kuhn_poker", action_names=("pass", "bet"))
    graph = to_networkx(tree, tree.always("bet"))
    assert nx.is_arborescence(graph)
    assert graph.number_of_nodes() == len(tree)
    assert graph.nodes[0]["player"] == "chance"
    assert graph.edges[0, 1]["probability"] == pytest.approx(1 / 6)
    leaf = int(tree.terminal[0])
    assert set(graph.nodes[leaf]["payoffs"]) == {"player_0", "player_1"}
    first = [graph.edges[1, child] for child in graph.successors(1)]
    assert [(edge["action"], edge["probability"]) for edge in first] == [("pass", 0.0), ("bet", 1.0)]


def test_picture_is_written_for_small_trees_and_refused_for_large_ones(tmp_path: Path) -> None:
    kuhn = build_tree("kuhn_poker", action_names=("pass", "bet"))
    plain = draw_tree(kuhn, tmp_path / "kuhn.png").read_bytes()
    mixed = draw_tree(kuhn, tmp_path / "mixed.png", equilibrium(kuhn).strategy).read_bytes()
    assert plain[:4] == b"\x89PNG"
    assert plain != mixed  # lines are as thick as likely
    with pytest.raises(ConfigError, match="10,201 nodes"):
        draw_tree(build_tree("leduc_poker"), tmp_path / "leduc.png")
