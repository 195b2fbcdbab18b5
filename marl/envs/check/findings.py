"""Everything that the checker can find: a name, how bad it is, and what to do about it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple


class Rule(NamedTuple):
    """``severe``: training would end with an error, or learn from wrong data."""

    severe: bool
    remedy: str


_error = partial(Rule, True)
_warning = partial(Rule, False)


CATALOG: dict[str, Rule] = {
    # what the calls return
    "unusable": _error(""),
    "raised": _error("Mend the env's code there."),
    "wrong-answer": _error(""),
    "info-not-dict": _error("Give every agent a dict as info, {} where there is nothing to say."),
    # who is there
    "unknown-agent": _error("Add it there, or mend the id."),
    "too-many-agents": _error("Raise max_agents; an agent that ends in the same step still counts."),
    "never-asked": _warning("Take it out of possible_agents, or ask it; random play may also just not have got there."),
    "asked-after-end": _warning(
        "If it is gone for good, leave it out of the observations after its end; if it comes back, this is right: it "
        "starts a new life."
    ),
    "reward-absent": _warning("It counts in the agent's return but trains nobody. Pay an agent until its own end."),
    # observations
    "obs-shape": _error("Make the space and the observations agree."),
    "obs-type": _error("Return whole numbers, or make the space a Box of floats."),
    "obs-range": _error("Make the space and the observations agree: a network has no input for this value."),
    "obs-precision": _warning("It is stored as the space says. Return that type, or change the space's dtype."),
    "obs-bounds": _error(
        "Widen the bounds of the space (np.inf is fine), or cut the observation with np.clip; check_bounds: false trains on "
        "it as it is."
    ),
    "obs-nan": _error("Return finite numbers; show 0 where there is nothing to see."),
    "obs-shared": _warning("marl copies at once, other code may not. Return a copy to each agent."),
    "obs-mutated": _warning("marl copies at once, other code may not. Return a new array in every step."),
    "space-new": _warning("Build it once and return the same one."),
    "space-changed": _error("Spaces are fixed for ever: build them once, in the constructor."),
    # masks
    "mask-shape": _error("Give one entry per action."),
    "mask-unannounced": _error(
        "Make the space Dict(observation=..., action_mask=MultiBinary(n)) and give both in the observation."
    ),
    "mask-empty": _error("Allow at least one action, or end the agent."),
    # rewards and endings
    "reward-nan": _error("Return finite numbers."),
    "reward-type": _error("Return a number: float(reward)."),
    "flag-type": _warning("Return True or False."),
    "both-flags": _warning("Terminated wins, so nothing is bootstrapped. Set only the one that is meant."),
    "no-last-obs": _warning(
        "Its last decision cannot be learned from. Return the observation of an agent in the step that ends it."
    ),
    "asked-and-ended": _error("An agent that ends is not asked again in the same step: present = False."),
    "over-without-flags": _error("Set terminated or truncated for everybody who is left when the episode is over."),
    "nobody-left": _error("End the episode with '__all__', or leave '__all__' out where all agents end by themselves."),
    "no-end": _warning("Set `horizon` in the scenario, or truncate in the env."),
    # global state and resuming
    "state-size": _error("Give it the same size in every step."),
    "state-nan": _error("Return finite numbers."),
    "state-type": _error("Return nested dicts and lists of numbers, strings, None and numpy arrays."),
    "state-half": _warning("Give both or none; without them an episode is replayed from its seed and actions."),
    "state-aliased": _error("Return copies of the arrays: a checkpoint must not change when the env goes on."),
    "state-roundtrip": _error("Save everything that the next steps depend on, the random generator too."),
    # repeatability
    "not-repeatable": _warning("Draw all randomness from a generator that reset builds from its seed."),
    "remembers": _warning("Clear everything in reset, or set fresh_env_per_episode: true."),
    "copies-interfere": _warning(
        "Keep state on the object, not on the class or in the module, and use a generator of its own instead of "
        "np.random or random."
    ),
    "lanes-depend": _warning("Draw each env's randomness from its own seed, and touch only the envs that are named."),
    "reset-touches-others": _error("Change only the envs that are named."),
    # chance that is listed
    "chance-list": _error(
        "Return pairs (outcome, probability), or drop chance_outcomes(): then seeds stand for chance."
    ),
    "chance-outcome": _error(
        "Let reset look at options['chance'], and let an outcome fix all that is random in an episode; or drop "
        "chance_outcomes(): then seeds stand for chance."
    ),
    "chance-missing": _error("List everything that chance can do, or drop chance_outcomes()."),
    "chance-weights": _error("Let chance_outcomes() say how likely reset draws each outcome."),
    # around it
    "unseeded-reset": _warning("Other tools reset without a seed: make it the default."),
    "close": _warning("close() should work at any time."),
    "not-sendable": _warning(
        "It works with num_workers: 0. For Ray workers define it in a module, or register it by its path "
        "'package.module:name'."
    ),
}


@dataclass(frozen=True)
class Problem:
    """What is wrong, and how to mend it."""

    code: str
    text: str
    times: int = 1

    @property
    def severe(self) -> bool:
        return CATALOG[self.code].severe

    @property
    def remedy(self) -> str:
        return CATALOG[self.code].remedy

    def __str__(self) -> str:
        sort = "error" if self.severe else "warning"
        text = self.text
        if self.times > 1:
            text += f" ({self.times} times)"
        return f"{sort}: {text} {self.remedy}".rstrip()


class Findings:
    """The first case of each rule that was broken, and how often it happened; errors before warnings."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._times: Counter[str] = Counter()
        self.notes: dict[str, str] = {}  # facts worth a line
        self.repeating = False  # the same steps are played again: what was found before is not counted twice

    def add(self, code: str, text: str) -> None:
        assert code in CATALOG, code
        # One case is enough to mend it: a rule broken in every step would bury all the others.
        self._texts.setdefault(code, text)
        if self.repeating and self._times[code]:
            return
        self._times[code] += 1

    def __contains__(self, code: str) -> bool:
        return code in self._texts

    @property
    def any_severe(self) -> bool:
        return any(CATALOG[code].severe for code in self._texts)

    @property
    def problems(self) -> list[Problem]:
        found = [Problem(code, text, self._times[code]) for code, text in self._texts.items()]
        return sorted(found, key=lambda problem: not problem.severe)


class Broken(Exception):
    """The env cannot be played on; why is among the findings."""
