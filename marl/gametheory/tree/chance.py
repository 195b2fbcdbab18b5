"""How chance comes into a tree: listed by the env, or found among reset seeds.

Everything random in an episode follows from its seed, so a seed is one course of chance. Seeds 0, 1, 2, ... are played
through, equal ones count together, and their shares stand for probabilities. Drawing stops when nothing new came up for so
long that, with 95 % confidence, less than 1 % of chance is unseen:

    after m different starts:  k_m = ln(m (m + 1) / 0.05) / 0.01  seeds in a row without a new one

If more than 1 % were unseen, such a run has a chance below 0.99^k_m = 0.05 / (m (m + 1)), and these sum to 0.05 over all m.
It also stops before the tree, or all that was played for it, has more than ``max_nodes`` nodes. A seed counts only if
everything that can follow from it was played: what random play does not reach may be random too. So seeds never
prove that there is no chance. An env says so itself: by one listed outcome of probability 1, or, if it is
native, by ``deterministic``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log
from typing import Protocol, TypeVar

import numpy as np

from marl.envs.batched import BatchedEnv, NativeEnv
from marl.envs.chance import ROUNDING, Outcomes, is_no_luck, listed_chance
from marl.envs.games.cards.dealt import DealtEnv
from marl.envs.vector.vector_env import DictVector
from marl.errors import ChanceError, ConfigError, EnvError
from marl.gametheory.tree.builder import Mark, TooLargeError
from marl.gametheory.tree.env_walker import MakeEnv, ManyLanes, Sight, Stage, Start, States, begin, stage_for
from marl.gametheory.tree.repeats import COURSES, courses, parts_at
from marl.gametheory.tree.tree import ChanceMode, ChanceSample, Reals

UNSEEN, DOUBT = 0.01, 0.05
ALIKE_NODES = 50_000  # that are played at most while all seeds play alike, but for a second seed
ALL_NEW = 200  # seeds without any repetition, after which no number of seeds that can be played would do
HALF = 0.5  # more unseen than that says nothing about the game
CHECKED = 64  # listed outcomes that are played once more to see whether the list is true
CHECKED_SEEDS = 128  # that are played to compare them with what the env says,
CHECKED_NODES = 20_000  # and the nodes for it
CHECKED_ALIKE = 16  # seeds that are enough where all have to play alike, so that there are no shares to compare
PLAYED_NODES = 20_000  # that may be played to find starts, however small the tree has to be

Thing = TypeVar("Thing")
Grown = tuple[ChanceMode, ChanceSample | None]


class Growing(Protocol):
    """What grows from the starts of an env: a tree, or a graph in which equal positions are one."""

    size: int
    max_nodes: int
    on_trial: int  # more nodes than max_nodes that may be there for a while, because they may be taken away again

    def stage(self, make: MakeEnv) -> Stage:
        """What the env is walked with."""

    def begin(self, stage: Stage, states: States, sight: Sight, probability: Reals, first: int = 0) -> None:
        """Starts, numbered from ``first`` on, and everything that follows from them."""

    def weigh(self, shares: Reals) -> None:
        """Give the starts other probabilities, by their numbers."""

    def mark(self) -> Mark:
        """How far it has grown."""

    def forget(self, mark: Mark) -> None:
        """Take away what was added since the mark."""

    def signature(self, mark: Mark) -> bytes:
        """What was added since the mark; equal bytes: it plays alike."""

    def too_large(self) -> TooLargeError:
        """What is said where it has more nodes than it may have."""


def grow_all(growth: Growing, make: MakeEnv, env: BatchedEnv, chance_samples: int | None) -> Grown:
    """Chance as the env lists it, unless seeds are asked for."""
    if chance_samples is not None:
        return grow_seeds(growth, make, env, chance_samples)
    if isinstance(env, DealtEnv):
        return grow_deals(growth, make, env)
    if isinstance(env, NativeEnv) and env.deterministic:
        return grow_certain(growth, make, env)
    listed = None
    if isinstance(env, DictVector):
        listed = listed_chance(env.envs[0], env.name)
    if listed is None:
        return grow_seeds(growth, make, env, None)
    return grow_listed(growth, make, env, listed)


def enough(starts: int) -> int:
    """Seeds in a row that have to bring nothing new after so many different starts."""
    return ceil(log(starts * (starts + 1) / DOUBT) / UNSEEN)


# -- listed --------------------------------------------------------------------------------------------------------


def grow_deals(growth: Growing, make: MakeEnv, env: DealtEnv) -> Grown:
    """A native env that lists its deals: one root for each, all grown together."""
    stage = ManyLanes(make)
    _check_deal_probabilities(env)
    deals = np.flatnonzero(env.deal_probabilities > 0)
    some = [Start(0, deal, True) for deal in _some(deals.tolist(), COURSES)]
    _check_repeats(env, some)
    _check_state(env, make, some)
    probability = env.deal_probabilities[deals]
    states, sight = stage.deals(deals)
    growth.begin(stage, states, sight, probability / probability.sum())
    return ("exact" if len(deals) > 1 else "none"), None


def _check_deal_probabilities(env: DealtEnv) -> None:
    given = np.asarray(env.deal_probabilities, np.float64)
    if given.ndim != 1 or not np.isfinite(given).all() or (given < 0).any() or abs(given.sum() - 1.0) > ROUNDING:
        raise ChanceError(
            f"env {env.name!r}: deal_probabilities is {np.array2string(given, threshold=8)}, with the sum "
            f"{given.sum():.9g}. Expected one number of 0 or more per deal, with the sum 1."
        )


def grow_listed(growth: Growing, make: MakeEnv, env: BatchedEnv, listed: Outcomes) -> Grown:
    """A dict env that lists its outcomes. Outcomes that play alike count together."""
    _check_accepted(env, listed)
    starts = Starts(growth, growth.stage(make))
    for outcome, probability in zip(*listed, strict=True):
        starts.play(Start(0, outcome, True), probability)
    starts.set_probabilities()
    _check_obeyed(env, listed)
    _check_state(env, make, [Start(0, outcome, True) for outcome in _some(listed.outcomes, COURSES)])
    _check_complete(starts, env.name, f"none of the {len(listed.outcomes)} outcomes of chance_outcomes() gives")
    return ("exact" if len(starts.weights) > 1 else "none"), None


def grow_certain(growth: Growing, make: MakeEnv, env: BatchedEnv) -> Grown:
    """A native env that says that nothing in it is random."""
    _check_repeats(env, [Start(seed) for seed in range(COURSES)])
    _check_state(env, make, [Start(seed) for seed in range(COURSES)])
    starts = Starts(growth, growth.stage(make))
    starts.play(Start(0))
    starts.set_probabilities()
    _check_complete(starts, env.name, "seed 0 does not give, though the env is `deterministic`")
    return "none", None


def _check_accepted(env: BatchedEnv, listed: Outcomes) -> None:
    try:
        begin(env, Start(0, listed.outcomes[0], True))
    except EnvError as error:
        raise ChanceError(
            f"env {env.name!r} has chance_outcomes(), but reset(options={{'chance': {listed.outcomes[0]!r}}}) failed: "
            f"{error} reset has to accept options={{'chance': outcome}} and play that outcome; or take chance_outcomes() "
            "away: then seeds stand for chance."
        ) from error


def _check_obeyed(env: BatchedEnv, listed: Outcomes) -> None:
    """The same outcome plays alike whatever the seed."""
    some = _some(listed.outcomes, CHECKED)
    starts = [Start(0, outcome, True) for outcome in some] * ceil(COURSES / len(some))
    for number, (start, course) in enumerate(zip(starts, courses(env, starts), strict=True)):
        # Steps are taken back in _check_state: what a state leaves out is no fault of the outcome.
        step = parts_at(env, start._replace(seed=number + 1), course)
        if step is not None:
            raise ChanceError(
                f"env {env.name!r}: chance_outcomes() lists {start.outcome!r}, but reset(options={{'chance': ...}}) with it "
                f"plays differently with the seeds 0 and {number + 1} ({_when(step)}). Either reset does not look at "
                "options['chance'], or something else is random too. Let an outcome fix all that is random in an episode, or "
                "take chance_outcomes() away: then seeds stand for chance."
            )


def _check_complete(starts: Starts, name: str, which: str) -> None:
    """What seeds draw is among what the env says, about as often as it says."""
    played, counts = starts.played, np.zeros(len(starts.weights), np.int64)
    for seed in range(CHECKED_SEEDS if len(counts) > 1 else CHECKED_ALIKE):
        if starts.played - played > CHECKED_NODES:
            break
        place = starts.place_of(Start(seed))
        if place is None:
            raise ChanceError(
                f"env {name!r}: reset(seed={seed}) begins an episode that {which}. List everything that chance can do, each "
                "outcome with all that is random in its episode, or list nothing: then seeds stand for chance."
            )
        counts[place] += 1
    total = int(counts.sum())
    for often, probability in zip(counts.tolist(), starts.weights, strict=True):
        if is_no_luck(often, total, probability, len(starts.weights)):
            raise ChanceError(
                f"env {name!r}: chance_outcomes() gives a start the probability {probability:.4g}, but {often} of {total} "
                "reset seeds drew it. Let it say how likely reset draws each outcome, or take it away: then seeds stand for "
                "chance."
            )


# -- seeds ---------------------------------------------------------------------------------------------------------


class Starts:
    """Different starts of an env, each grown once, with their weights."""

    def __init__(self, growth: Growing, stage: Stage) -> None:
        self.growth, self.stage = growth, stage
        self.found: dict[bytes, int] = {}
        self.weights: list[float] = []
        self.seeds = self.since_new = 0
        self.played = 0  # nodes, those of equal starts too

    def play(self, start: Start, weight: float = 1.0) -> None:
        """Grow what follows from a start; a start that is known already only adds its weight."""
        growth, mark = self.growth, self.growth.mark()
        signature = self._on_trial(start, mark)
        if signature in self.found:
            growth.forget(mark)
            self.since_new += 1
            self.weights[self.found[signature]] += weight
            return
        if growth.size > growth.max_nodes:
            error = growth.too_large()
            growth.forget(mark)
            raise error
        self.found[signature] = len(self.weights)
        self.since_new = 0
        self.weights.append(weight)

    def place_of(self, start: Start) -> int | None:
        """Which start found before it plays like; nothing of it is kept."""
        mark = self.growth.mark()
        signature = self._on_trial(start, mark)
        self.growth.forget(mark)
        return self.found.get(signature)

    def _on_trial(self, start: Start, mark: Mark) -> bytes:
        """Grow what follows from a start, and what it looks like. Only the start itself has to fit: it may be taken away."""
        growth = self.growth
        growth.on_trial = mark.size
        try:
            growth.begin(self.stage, *self.stage.start(start), np.ones(1), first=len(self.weights))
        except TooLargeError:
            growth.forget(mark)
            raise
        finally:
            growth.on_trial = 0
        self.played += growth.size - mark.size
        return growth.signature(mark)

    def next_seed(self) -> None:
        self.play(Start(self.seeds))
        self.seeds += 1

    def set_probabilities(self) -> None:
        """Every start's share of all weights."""
        self.growth.weigh(np.array(self.weights) / sum(self.weights))

    @property
    def sample(self) -> ChanceSample:
        return ChanceSample(np.array(self.weights).astype(np.int64))


def grow_seeds(growth: Growing, make: MakeEnv, env: BatchedEnv, samples: int | None) -> Grown:
    """So many seeds, or as many as it takes. However alike they play, they are a sample."""
    some = [Start(seed) for seed in range(COURSES if samples is None else min(samples, COURSES))]
    _check_repeats(env, some)
    _check_state(env, make, some)
    starts = Starts(growth, growth.stage(make))
    if samples is None:
        _draw_until_nothing_new(starts, env.name)
    else:
        for _ in range(samples):
            starts.next_seed()
    starts.set_probabilities()
    return "sampled", starts.sample


def _draw_until_nothing_new(starts: Starts, name: str) -> None:
    starts.next_seed()
    while starts.since_new < enough(len(starts.weights)) and not _played_enough(starts):
        try:
            starts.next_seed()
        except TooLargeError:
            break
        if starts.seeds == len(starts.weights) == ALL_NEW:
            break
    _refuse_a_blind_sample(starts.sample, name)


def _played_enough(starts: Starts) -> bool:
    """Whether playing on would take too long; two seeds are always compared."""
    limit = max(starts.growth.max_nodes, PLAYED_NODES)
    if len(starts.weights) == 1:
        return starts.seeds >= 2 and starts.played >= min(limit, ALIKE_NODES)
    return starts.played >= limit


def _refuse_a_blind_sample(sample: ChanceSample, name: str) -> None:
    # Seeds that all play alike have an error of their own, which says how little they show.
    if sample.seeds == 1 or (sample.starts > 1 and sample.unseen > HALF):
        raise ConfigError(
            f"env {name!r} does not list its chance, and {sample.seeds} reset seeds gave {sample.starts} different starts: "
            "most of what chance can do was not seen, so a tree of these seeds would say nothing about the game. Give the "
            "env chance_outcomes(), or estimate exploitability by trained best responses. chance_samples takes a number of "
            "seeds all the same."
        )


def _check_repeats(env: BatchedEnv, starts: Sequence[Start]) -> None:
    """The same start and the same actions lead to the same place."""
    for start, course in zip(starts, courses(env, starts), strict=True):
        step = parts_at(env, start, course, take_back=True)
        if step is not None:
            what = f"deal {start.outcome}" if start.listed else f"reset seed {start.seed}"
            raise ConfigError(
                f"env {env.name!r}: {what} and the same actions led elsewhere the second time ({_when(step)}), so its steps "
                "draw random numbers that do not follow from the start, and a tree would be wrong. Draw everything from a "
                "generator that reset builds from its seed, and let get_state() hold it; or estimate exploitability by "
                "trained best responses."
            )


def _check_state(env: BatchedEnv, make: MakeEnv, starts: Sequence[Start]) -> None:
    """States hold all that decides what follows: put into an env that has begun another episode, they go on as before."""
    again = list(starts) * ceil(COURSES / len(starts))
    fresh = make if isinstance(stage_for(make), ManyLanes) else None  # how the env will be walked
    for number, (start, course) in enumerate(zip(again, courses(env, again), strict=True)):
        other = again[(number + 1) % len(again)]
        if other is start:  # there is only one; outcomes may be arrays, which are not compared
            other = Start(start.seed + 1_000, start.outcome, start.listed)
        step = parts_at(env, start, course, take_back=True, other=other, make=fresh)
        if step is not None:
            raise ConfigError(
                f"env {env.name!r}: put into an env that had begun another episode, a state went on differently "
                f"({_when(step)}), so it leaves something out, and what is computed from it would be wrong. Let get_state() "
                "hold everything that changes in an episode; a native env names all of its arrays in state_arrays."
            )


def _some(things: Sequence[Thing], count: int) -> Sequence[Thing]:
    """About so many of them, evenly spread."""
    return things[:: max(1, len(things) // count)]


def _when(step: int) -> str:
    return f"in step {step}" if step else "at the start"
