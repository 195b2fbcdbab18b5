"""Magnetic mirror descent (Sokota et al., 2023) and the Nash policy gradient's moving reference, exactly, on a tree.

All players step at once. At every information set, with the present strategy ``s``, a magnet ``m`` and the value ``q[c]`` of
each choice (what it earns from there on, given that the set is reached, in units of the player's largest payoff):

    s'[c]  ~  (s[c] * m[c]^(eta alpha) * exp(eta q[c]))^(1 / (1 + eta alpha))

``eta`` is the length of a step, ``alpha`` the temperature: how strongly the magnet pulls. That is the step that maximises
``<q, s'> - alpha KL(s', m) - KL(s', s) / eta``. With a fixed temperature and uniform play as the magnet what is played *last*
converges to a quantal response equilibrium, linearly; two ways lead from there to a Nash equilibrium:

* ``mmd``: step and temperature go to 0 with the root of time;
* ``nashpg``: the temperature stays, and every so often the magnet moves to what is played now, so that each pull starts from
  where the last one ended (as in the Nash policy gradient, or regularised Nash dynamics).

These are what the learners of the same names do with networks and samples: here without error, so that one can tell the method
from its approximation. The average (over plans, iteration t counts t times) is kept beside the last iterate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite

import numpy as np

from marl.errors import ConfigError, UnknownNameError, did_you_mean
from marl.gametheory.solve.solution import require_whole
from marl.gametheory.tree.kernels import add
from marl.gametheory.tree.response import Solved, solved
from marl.gametheory.tree.sequence import PlayerForm
from marl.gametheory.tree.tree import Behaviour, Reals, Tree


@dataclass(frozen=True)
class Mirror:
    """Step and temperature in iteration ``t`` are ``step / t^step_decay`` and ``temperature / t^temperature_decay``."""

    step: float
    temperature: float
    step_decay: float = 0.0
    temperature_decay: float = 0.0
    magnet_every: int = 0  # iterations after which the magnet moves to what is played; 0: it stays uniform play

    def __post_init__(self) -> None:
        numbers = (self.step, self.temperature, self.step_decay, self.temperature_decay)
        finite = all(isfinite(number) for number in numbers)
        if not (finite and self.step > 0.0 and self.temperature >= 0.0 and self.magnet_every >= 0):
            raise ConfigError(
                f"mirror descent with step {self.step}, temperature {self.temperature}, decays {self.step_decay} and "
                f"{self.temperature_decay}, magnet_every {self.magnet_every}; expected finite numbers: a step above 0, and a "
                "temperature and magnet_every of 0 or more."
            )

    def pull(self, t: int) -> tuple[float, float]:
        """Step and temperature in iteration ``t``, which counts from 1."""
        return self.step / t**self.step_decay, self.temperature / t**self.temperature_decay

    def moves_magnet(self, t: int) -> bool:
        return self.magnet_every > 0 and t % self.magnet_every == 0


MIRRORS = {
    "mmd": Mirror(2.0, 0.4, 0.5, 0.5),
    "nashpg": Mirror(0.5, 0.1, magnet_every=50),
}


def mirror_of(variant: str | Mirror) -> Mirror:
    if isinstance(variant, Mirror):
        return variant
    if variant not in MIRRORS:
        raise UnknownNameError(
            f"unknown mirror descent {variant!r}.{did_you_mean(variant, MIRRORS)} Known: {', '.join(MIRRORS)}, or a "
            "Mirror(step, temperature, ...)."
        )
    return MIRRORS[variant]


def mirror_step(logits: Reals, magnet: Reals, values: Reals, step: float, temperature: float) -> Reals:
    """Logarithms of the next strategy but for a constant per set; all arguments are of one shape."""
    return np.asarray((logits + step * (temperature * magnet + values)) / (1.0 + step * temperature))


class Mirrored:
    """One player: logarithms of its strategy and of its magnet, its plan, and the sum of what it played."""

    def __init__(self, form: PlayerForm, scale: float) -> None:
        self.form, self.scale = form, scale or 1.0
        self.strategy: Behaviour = form.uniform.copy()
        self.logits, self.magnet = np.log(form.uniform), np.log(form.uniform)
        self.plan, self.sums = form.plan(self.strategy), np.zeros(form.num_sequences)

    def values(self, payoffs: Reals, reached: Reals) -> Reals:
        """``q`` ``[choices]`` from counterfactual payoffs and reach at terminal nodes, which are used up.

        0 where the others never lead.
        """
        for numbers in (payoffs, reached):
            add(self.form.fold_products(numbers, self.strategy))
        # A choice's own reach is left out of both, so what stands behind it is reached as likely as its set is.
        often = reached[1:]
        return np.divide(payoffs[1:], often * self.scale, out=np.zeros_like(often), where=often > 0.0)

    def play(self, logits: Reals) -> None:
        form = self.form
        below = logits - np.maximum.reduceat(logits, form.first)[form.owner]
        weights, total = np.exp(below), np.zeros(form.num_sets)
        add([form.set_product(np.ones_like(weights), weights, total)])
        self.strategy = weights / total[form.owner]
        # From the logits, not from the strategy: what is played with a chance of 1e-400 may come back.
        self.logits = below - np.log(total)[form.owner]
        self.plan = form.plan(self.strategy)


class MirrorDescent:
    """A solver that can be asked at any time; ``run`` goes on where it stopped."""

    def __init__(self, tree: Tree, variant: str | Mirror = "mmd") -> None:
        self.tree, self.form, self.mirror = tree, tree.form, mirror_of(variant)
        self.iterations = 0
        self.players = [
            Mirrored(form, float(scale)) for form, scale in zip(self.form.players, tree.scales, strict=True)
        ]

    def run(self, iterations: int) -> MirrorDescent:
        for _ in range(iterations):
            self.iterations += 1
            self._step()
        return self

    def _step(self) -> None:
        t, plans = self.iterations, [player.plan for player in self.players]
        step, temperature = self.mirror.pull(t)
        for number, player in enumerate(self.players):  # all against what was played so far
            if player.form.num_sets:
                player.sums += t * player.plan
                values = player.values(self.form.counterfactual(number, plans), self.form.reached(number, plans))
                player.play(mirror_step(player.logits, player.magnet, values, step, temperature))
                if self.mirror.moves_magnet(t):
                    player.magnet = player.logits

    def average(self) -> Behaviour:
        """The average strategy of all players; uniform before the first iteration."""
        return self.form.behaviour([player.sums for player in self.players])

    def current(self) -> Behaviour:
        """What is played in the next iteration."""
        return np.concatenate([player.strategy for player in self.players])

    def solved(self) -> Solved:
        """The average, and beside it the last iterate."""
        last = solved(self.tree, self.current(), self.iterations)
        return replace(solved(self.tree, self.average(), self.iterations), last=last)


def mirror_descent(tree: Tree, iterations: int, variant: str | Mirror = "mmd") -> Solved:
    """The average strategy after so many iterations with its exact NashConv, and the last one (``last``) with its own."""
    require_whole("mirror_descent: iterations", iterations)
    return MirrorDescent(tree, variant).run(iterations).solved()
