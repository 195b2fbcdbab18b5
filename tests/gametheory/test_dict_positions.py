"""Positions of dict envs: equal states are one, whatever they are made of; what cannot be compared is refused."""

from __future__ import annotations

import itertools
import random
from collections import OrderedDict, defaultdict, deque
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest
from gymnasium import spaces

from marl.envs.base import ALL, MultiAgentEnv, StepResult
from marl.errors import ConfigError
from marl.gametheory.merged.game import MergedGame
from marl.gametheory.merged.positions import positions_of
from marl.gametheory.merged.state_digest import NotComparableError, digest_of
from marl.gametheory.tree.build import build_tree
from marl.policies.scripted import RandomPolicy

from .card_games import ListedCardGame


class Take(MultiAgentEnv):
    """Two players take 1 or 2 of ``pile`` stones in turns; who takes the last one wins. What is taken is kept in a set of
    marks, so that the order in which stones went differs from history to history."""

    possible_agents = ("first", "second")

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.pile = int((config or {}).get("pile", 4))
        self.seen, self.moves = spaces.Discrete(self.pile + 1), spaces.Discrete(2)
        self.left: dict[str, Any] = {}
        self.turn = 0

    def observation_space(self, agent: str) -> Any:
        return self.seen

    def action_space(self, agent: str) -> Any:
        return self.moves

    def chance_outcomes(self) -> dict[None, float]:
        return {None: 1.0}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.left, self.turn = {"stones": self.pile, "marks": set()}, 0
        return {"first": self.pile}, {}

    def step(self, actions: dict[str, Any]) -> StepResult:
        mover = self.possible_agents[self.turn]
        self.left["stones"] = max(0, self.left["stones"] - 1 - int(actions[mover]))
        self.turn = 1 - self.turn
        asked = self.possible_agents[self.turn]
        over = self.left["stones"] == 0
        rewards = {mover: 1.0, asked: -1.0} if over else {}
        return StepResult({asked: self.left["stones"]}, rewards, {ALL: over}, {ALL: False}, {})


class Stored(Take):
    """The same, with a state of its own."""

    def get_state(self) -> Any:
        return {"stones": self.left["stones"], "turn": self.turn}

    def set_state(self, state: Any) -> None:
        self.left, self.turn = {"stones": state["stones"], "marks": set()}, state["turn"]


LAST = [0]


class Forgetful(Take):
    """What its last move pays depends on the move before, which it keeps outside of its own object."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        LAST[0] = 0
        return super().reset(seed=seed, options=options)

    def step(self, actions: dict[str, Any]) -> StepResult:
        result = super().step(actions)
        rewards = {agent: paid + LAST[0] for agent, paid in result.rewards.items()}
        LAST[0] = int(next(iter(actions.values())))
        return result._replace(rewards=rewards)


def nodes_of_take(pile: int) -> int:
    """Histories of the game, counted by hand: all ways to take 1 or 2 stones until none is left."""
    if pile <= 0:
        return 1
    return 1 + nodes_of_take(pile - 1) + nodes_of_take(pile - 2)


@pytest.mark.parametrize("env", [Take, Stored])
def test_histories_with_the_same_stones_left_are_one_position(env: type[Take]) -> None:
    tree, positions = build_tree(env, {"pile": 6}), positions_of(env, {"pile": 6})
    assert len(tree) == nodes_of_take(6)
    # (steps, stones left): after n steps between n and 2 n stones are gone.
    left = {(n, 6 - gone) for n in range(6) for gone in range(n, min(2 * n, 5) + 1)}
    ends = set(range(3, 7))  # of what is over, nothing but the time matters
    assert len(positions) == len(left) + len(ends) < len(tree)
    assert positions.chance == "none"
    assert [len(views) for views in positions.views] == [5, 5]  # first: 6, 4, 3, 2, 1; second: 5, 4, 3, 2, 1


def test_a_state_that_leaves_something_out_is_noticed() -> None:
    with pytest.raises(ConfigError, match="went on differently after the same actions"):
        positions_of(Forgetful, {"pile": 8})


def test_an_env_that_holds_what_cannot_be_looked_into_is_refused_by_name() -> None:
    class Counting(Take):
        def __init__(self, config: Mapping[str, Any] | None = None) -> None:
            super().__init__(config)
            self.numbers = itertools.count()

    with pytest.raises(ConfigError, match=r"(?s)numbers is a itertools.count.*get_state\(\)"):
        positions_of(Counting)


def test_listed_chance_keeps_its_probabilities() -> None:
    positions = positions_of(ListedCardGame)
    assert positions.chance == "exact"
    assert positions.start_probability == pytest.approx(np.full(12, 1 / 12))
    assert [len(views) for views in positions.views] == [4, 4]


# -- states that are wrongly taken for equal -----------------------------------------------------------------------


class Thimble:
    """Nothing tells it from another one but that it is this one."""


class Pea(MultiAgentEnv):
    """Chance hides a pea under one of two thimbles, 0.3 to 0.7. ``a`` guesses, then ``b``, who does not see that guess; who is
    right gets 1 from the other. Against even play the best guess gains 0.2, for both."""

    possible_agents = ("a", "b")

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.seen, self.moves = spaces.Discrete(2), spaces.Discrete(2)

    def observation_space(self, agent: str) -> Any:
        return self.seen

    def action_space(self, agent: str) -> Any:
        return self.moves

    def chance_outcomes(self) -> list[tuple[int, float]]:
        return [(0, 0.3), (1, 0.7)]

    def hide(self, place: int) -> None:
        self.thimbles = [Thimble(), Thimble()]
        self.pea = self.thimbles[place]

    def is_right(self, guess: int) -> bool:
        return self.thimbles[guess] is self.pea

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        drawn = int(np.random.default_rng(seed).random() < 0.7)
        self.guess: int | None = None
        self.hide((options or {}).get("chance", drawn))
        return {"a": 0}, {}

    def step(self, actions: dict[str, Any]) -> StepResult:
        if self.guess is None:
            self.guess = int(actions["a"])
            return StepResult({"b": 1}, {}, {ALL: False}, {ALL: False}, {})
        paid = float(self.is_right(self.guess)) - float(self.is_right(int(actions["b"])))
        return StepResult({}, {"a": paid, "b": -paid}, {ALL: True}, {ALL: False}, {})


class Card(int):
    """A number with something written on it."""

    suit = 0


class HiddenCard(Pea):
    def hide(self, place: int) -> None:
        self.card = Card(7)
        self.card.suit = place

    def is_right(self, guess: int) -> bool:
        return self.card.suit == guess


class MaskedPea(Pea):
    def hide(self, place: int) -> None:
        self.table = np.ma.array([1, 1], mask=[place == 0, place == 1])

    def is_right(self, guess: int) -> bool:
        return bool(self.table.mask[guess])


class RuledPea(Pea):
    def hide(self, place: int) -> None:
        self.rule = (lambda guess: guess == 0, lambda guess: guess == 1)[place]

    def is_right(self, guess: int) -> bool:
        return bool(self.rule(guess))


class ClassPea(Pea):
    """What changes stands in the class."""

    hidden: ClassVar[list[int]] = [0]

    def hide(self, place: int) -> None:
        self.hidden[0] = place

    def is_right(self, guess: int) -> bool:
        return self.hidden[0] == guess


UNDER = [0]


class OutsidePea(ClassPea):
    """What changes stands in the module."""

    hidden = UNDER


class ModulePea(Pea):
    def hide(self, place: int) -> None:
        UNDER[0] = place

    def is_right(self, guess: int) -> bool:
        return UNDER[0] == guess


class OrderedPea(Pea):
    """Dicts are compared without their order, which decides here."""

    def hide(self, place: int) -> None:
        self.places = dict.fromkeys([place, 1 - place])

    def is_right(self, guess: int) -> bool:
        return next(iter(self.places)) == guess


class LatePea(ModulePea):
    """The same, but starts can be told apart; only what follows cannot."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        shown = super().reset(seed=seed, options=options)
        self.fresh: int | None = UNDER[0]
        return shown

    def step(self, actions: dict[str, Any]) -> StepResult:
        self.fresh = None
        return super().step(actions)


class StatedPea(HiddenCard):
    """Its own state leaves out where the pea is."""

    def get_state(self) -> Any:
        return {"guess": self.guess}

    def set_state(self, state: Any) -> None:
        self.guess = state["guess"]


def gain_in(env: type[Pea]) -> float:
    game = MergedGame(positions_of(env))
    players = game.positions.players
    return game.measure({name: RandomPolicy(game.positions.kind_of(i)) for i, name in enumerate(players)}).nash_conv


@pytest.mark.parametrize("env", [Pea, HiddenCard, MaskedPea, RuledPea, ClassPea, OutsidePea])
def test_what_is_hidden_in_odd_places_is_part_of_the_state(env: type[Pea]) -> None:
    assert gain_in(env) == pytest.approx(0.4, abs=1e-12)


@pytest.mark.parametrize("env", [ModulePea, OrderedPea, LatePea])
def test_starts_and_what_follows_from_different_ones_are_played_on_too(env: type[Pea]) -> None:
    with pytest.raises(ConfigError, match="went on differently after the same actions"):
        gain_in(env)


@pytest.mark.parametrize("build", [positions_of, build_tree])
def test_a_state_without_what_chance_did_is_noticed_by_positions_and_trees(build: Any) -> None:
    with pytest.raises(ConfigError, match=r"put into an env that had begun another episode.* leaves something out"):
        build(StatedPea)


# -- digests -------------------------------------------------------------------------------------------------------


class Thing:
    def __init__(self, **parts: Any) -> None:
        self.__dict__.update(parts)


class Row(list[int]):
    """A list with attributes."""


class Slim:
    __slots__ = ("a", "b")

    def __init__(self, a: int, b: int) -> None:
        self.a, self.b = a, b


def looped(value: int) -> Thing:
    thing = Thing(value=value)
    thing.me = thing
    return thing


def row(mark: int) -> Row:
    made = Row([1])
    made.mark = mark  # type: ignore[attr-defined]
    return made


class Secret:
    __slots__ = ("__kept",)

    def __init__(self, kept: int) -> None:
        self.__kept = kept


def hidden_slot(value: int) -> Secret:
    return Secret(value)


def spawned(times: int) -> np.random.Generator:
    """It draws the same numbers however many children it had, but gives others to its next child."""
    made = np.random.default_rng(3)
    made.spawn(times)
    return made


EQUAL = [
    (lambda: {"a": 1, "b": [2, 3]}, lambda: {"b": [2, 3], "a": 1}),
    (lambda: {3, 1, 2}, lambda: {2, 3, 1}),
    (lambda: np.array([0.0, 1.0]), lambda: np.array([-0.0, 1.0])),
    (lambda: Thing(a=[1], b=Thing(c=(2,))), lambda: Thing(b=Thing(c=(2,)), a=[1])),
    (lambda: looped(1), lambda: looped(1)),
    (lambda: Slim(1, 2), lambda: Slim(1, 2)),
    (lambda: np.random.default_rng(3), lambda: np.random.default_rng(3)),
    (lambda: [(1,), (1,)], lambda: [(one := (1,)), one]),
    (lambda: [one := [0], [one]], lambda: [one := [0], [one]]),
    (lambda: Secret(1), lambda: Secret(1)),
    (lambda: {frozenset([1, 2]): [1], frozenset([3]): [2]}, lambda: {frozenset([3]): [2], frozenset([2, 1]): [1]}),
]
DIFFERENT = [
    (lambda: [1, [2]], lambda: [[1], 2]),
    (lambda: [12, 3], lambda: [1, 23]),
    (lambda: np.zeros((2, 3)), lambda: np.zeros((3, 2))),
    (lambda: np.zeros(2, np.int32), lambda: np.zeros(2, np.float32)),
    (lambda: looped(1), lambda: looped(2)),
    (lambda: row(1), lambda: row(2)),
    (lambda: Slim(1, 2), lambda: Slim(2, 1)),
    (lambda: np.random.default_rng(3), lambda: np.random.default_rng(4)),
    (lambda: random.Random(1), lambda: random.Random(2)),
    (lambda: Thing(a=1), lambda: Thing(b=1)),
    (lambda: "1", lambda: 1),
    (lambda: [one := [0], one], lambda: [[0], [0]]),
    (lambda: hidden_slot(1), lambda: hidden_slot(2)),
    (lambda: deque([1], maxlen=1), lambda: deque([1], maxlen=2)),
    (lambda: defaultdict(int), lambda: defaultdict(list)),
    (lambda: lambda: 1, lambda: lambda: 2),
    (lambda: spawned(0), lambda: spawned(1)),
    (lambda: np.float32(1), lambda: np.float64(1)),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_equal_states_have_equal_digests(one: Any, other: Any) -> None:
    assert digest_of(one()) == digest_of(other())


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_states_have_different_digests(one: Any, other: Any) -> None:
    assert digest_of(one()) != digest_of(other())


def test_what_is_not_python_is_not_taken_for_equal() -> None:
    for opaque in (iter([1]), (i for i in [1]), object(), itertools.count(), np.random.PCG64(1)):
        with pytest.raises(NotComparableError, match=r"\['deep'\]\.\[0\] is a "):
            digest_of({"deep": [opaque]})


def test_a_method_that_a_state_keeps_is_told_apart_by_what_it_belongs_to() -> None:
    """``self.draw = random.Random(seed).random`` draws other numbers after it was asked."""
    fresh, asked, filled = random.Random(7).random, random.Random(7).random, list[int]()
    assert digest_of([fresh]) == digest_of([asked])
    asked()
    assert digest_of([fresh]) != digest_of([asked])
    before = digest_of([filled.append])
    filled.append(1)
    assert digest_of([filled.append]) != before


def test_the_order_of_an_ordered_dict_is_part_of_it() -> None:
    assert digest_of(OrderedDict(a=1, b=2)) != digest_of(OrderedDict(b=2, a=1))
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
