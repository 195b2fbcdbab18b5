"""How exploitable a language model is, with an interval for what asking only so often leaves open.

In a game whose tree is small the model is asked about every information set (``samples`` times), and NashConv of the chances
found is exact for them. The chances themselves are estimates. With ``n_h(a)`` answers at information set ``h``, what the model
really does is drawn many times from

    p_h ~ Dirichlet(n_h + 1/2)        (Jeffreys' prior)

independently for all that the model was asked about, and NashConv is computed for each draw (information sets that look the
same are one question, so they share what is drawn). A best reply is a maximum, so noise in the chances pushes
NashConv up: the estimate lies above the truth on average, and the draws above the estimate. The interval therefore holds both
the central 95 % of the draws and their mirror image about the estimate, which takes the push off instead of adding it. On
Kuhn poker it held the truth in 93 % or more of 150 trials with 10 answers a set, and in 96 % or more with 20 and with 50.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marl.data.task import Array
from marl.envs.registry import make_batched_env
from marl.gametheory.language.player import LanguageModelPolicy, Opinion
from marl.gametheory.language.views import check_is_native
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.response import gains
from marl.gametheory.tree.tree import Behaviour, Tree
from marl.policies.language_config import LanguageModelConfig

DRAWS = 1_000
JEFFREYS = 0.5
CENTRAL = (0.025, 0.975)


@dataclass(frozen=True)
class AskedExploitability:
    """NashConv of a language model that plays all seats, and the 95 % interval of it."""

    nash_conv: float
    low: float
    high: float
    gains: dict[str, float]
    information_sets: int
    answers: int
    fallbacks: int

    def as_json(self) -> dict[str, Any]:
        return {
            "nash_conv": self.nash_conv,
            "interval": [self.low, self.high],
            "gains": self.gains,
            "information_sets": self.information_sets,
            "answers": self.answers,
            "fallbacks": self.fallbacks,
        }


def exploit_language_model(
    env: str, env_config: Mapping[str, Any] | None, config: LanguageModelConfig, *, seed: int = 0, draws: int = DRAWS
) -> AskedExploitability:
    """Ask about every information set, and measure what was found."""
    shown = config.model_copy(update={"env": env, "env_config": dict(env_config or {})})
    made = make_batched_env(env, 1, dict(env_config or {}), with_state=False)
    check_is_native(made, env)  # trees of other envs may take minutes
    made.close()
    tree = build_tree(env, env_config)
    policies = {kind.first_seat: LanguageModelPolicy(kind, shown) for kind in tree.kinds}
    return measured(tree, opinions_of(tree, policies), seed=seed, draws=draws)


def opinions_of(tree: Tree, policies: Mapping[int, LanguageModelPolicy]) -> list[Opinion]:
    """The opinion about every information set, in the order of the tree; ``policies`` by the first seat of their kind."""
    found: list[Opinion] = []
    for number, player in enumerate(tree.sets.player.tolist()):
        kind = tree.kind_of(player)
        obs: Array = np.array(tree.sets.obs[number], kind.obs_dtype)
        found.append(policies[kind.first_seat].opinion(player - kind.first_seat, obs))
    return found


def measured(tree: Tree, opinions: list[Opinion], *, seed: int = 0, draws: int = DRAWS) -> AskedExploitability:
    """NashConv of these opinions, and its interval."""
    counts = np.array([opinions[owner].counts[action] for owner, action in zip(*_choices(tree), strict=True)])
    certain = np.array([opinion.certain for opinion in opinions])
    each = gains(tree, _normalised(tree, counts))
    estimate = float(each.sum())
    low = high = estimate
    asked = list({id(opinion): opinion for opinion in opinions}.values())
    if not certain.all():
        weights = _Weights(tree, opinions, counts)
        low, high = _interval(tree, weights, estimate, np.random.default_rng(seed), draws)
    return AskedExploitability(
        nash_conv=max(0.0, estimate),  # rounding may leave a little less
        low=low,
        high=high,
        gains=dict(zip(tree.players, each.tolist(), strict=True)),
        information_sets=len(opinions),
        answers=round(sum(opinion.counts.sum() for opinion in asked if not opinion.certain)),
        fallbacks=sum(opinion.fallbacks for opinion in asked),
    )


class _Weights:
    """Draws of what the model really does: information sets with one opinion have the same one in every draw."""

    def __init__(self, tree: Tree, opinions: list[Opinion], counts: NDArray[np.float64]) -> None:
        owner, action = tree.sets.owner, tree.sets.action
        places: dict[int, int] = {}
        number = np.array([places.setdefault(id(opinion), len(places)) for opinion in opinions])
        pairs = np.column_stack([number[owner], action])
        _, first, among = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
        self.counts, self.among = counts[first], among.reshape(-1)
        self.sure = np.array([opinion.certain for opinion in opinions])[owner[first]]

    def draw(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """A weight for every choice of the tree."""
        # Gamma numbers that are divided by their sum are a draw of the Dirichlet distribution.
        drawn = np.where(self.sure, self.counts, rng.standard_gamma(self.counts + JEFFREYS))
        return np.asarray(drawn[self.among])


def _interval(
    tree: Tree, weights: _Weights, estimate: float, rng: np.random.Generator, draws: int
) -> tuple[float, float]:
    found = np.empty(draws)
    for draw in range(draws):
        found[draw] = gains(tree, _normalised(tree, weights.draw(rng))).sum()
    low, high = np.quantile(found, CENTRAL)
    # Near an equilibrium the push adds up in squares, as lengths of independent vectors do: that mirror is the lower one.
    mirrored_low = float(np.sqrt(max(0.0, 2 * estimate**2 - high**2)))
    mirrored_high = 2 * estimate - low
    return max(0.0, min(float(low), mirrored_low)), min(_largest(tree), float(max(high, mirrored_high)))


def _largest(tree: Tree) -> float:
    """NashConv is never more: everybody's best payoff, less the least that all are paid together."""
    paid = tree.payoffs[tree.terminal]
    return float(paid.max(axis=0).sum() - paid.sum(axis=1).min())


def _choices(tree: Tree) -> tuple[list[int], list[int]]:
    """The information set and the action of every choice of the tree."""
    return tree.sets.owner.tolist(), tree.sets.action.tolist()


def _normalised(tree: Tree, weights: NDArray[np.float64]) -> Behaviour:
    total = np.bincount(tree.sets.owner, weights)
    return np.asarray(weights / total[tree.sets.owner])
