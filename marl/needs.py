"""What keys need: declared beside the key, checked by one validator, told in one form.

A key that would be ignored is a misunderstanding, and is refused before any work starts. What it needs stands with its type,
default and sentence::

    kl_target: PositiveFloat = Field(0.01, description="...", json_schema_extra=declare(needs(above("kl_coeff", 0))))

``needs`` holds where one of its conditions on other keys holds: on keys of the same section, or of sections below it
(``exploitability.interval``). ``only_for``, ``not_for`` and ``plays`` are about the policy that a key is for: how it acts, by
which algorithm it learns, which actions its agents have; ``algo_needs`` is about keys of that algorithm. They are looked at
when it is known who plays (``marl.scenario.unused_keys``).
The default of a key may always stand there. ``marl config``, the reference and the JSON schema tell all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

Test = Literal["one of", "none of", "above", "given", "not given"]
Values = tuple[Any, ...] | Callable[[], tuple[Any, ...]]  # a function where more can be registered later


# -- conditions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Condition:
    """What the value of one key has to be."""

    key: str
    test: Test
    expected: Values = ()

    @property
    def values(self) -> tuple[Any, ...]:
        if callable(self.expected):
            return self.expected()
        return self.expected

    def holds(self, value: Any) -> bool:
        if self.test == "given":
            return not _is_empty(value)
        if self.test == "not given":
            return _is_empty(value)
        if self.test == "above":
            (bound,) = self.values
            if value is None:
                return False
            return bool(value > bound)
        among = _is_among(value, self.values)
        if self.test == "none of":
            return not among
        return among

    def __str__(self) -> str:
        if self.test == "given":
            return self.key
        if self.test == "not given":
            return f"no {self.key}"
        if self.test == "above":
            return f"{self.key} above {self.values[0]}"
        if self.test == "none of":
            return f"{self.key} other than {_values(self.values)}"
        return f"{self.key}: {_values(self.values)}"

    @property
    def remedy(self) -> str:
        if self.test == "not given":
            return f"drop {self.key}"
        return f"set {self.key}"


def one_of(key: str, *values: Any) -> Condition:
    return Condition(key, "one of", values)


def registered(key: str, names: Callable[[], tuple[Any, ...]]) -> Condition:
    """One of the names that are registered when somebody asks."""
    return Condition(key, "one of", names)


def none_of(key: str, *values: Any) -> Condition:
    return Condition(key, "none of", values)


def above(key: str, number: float) -> Condition:
    return Condition(key, "above", (number,))


def given(key: str) -> Condition:
    return Condition(key, "given")


def not_given(key: str) -> Condition:
    return Condition(key, "not given")


# -- needs of a key ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Need:
    """One of the conditions has to hold, where the key has one of the values ``when``, or any but its default."""

    any_of: tuple[Condition, ...]
    when: tuple[Any, ...] = ()
    why: str = ""

    def __str__(self) -> str:
        return listed([str(condition) for condition in self.any_of])

    @property
    def begin(self) -> str:
        """How the sentence about it begins."""
        if self.when:
            return f"{_values(self.when)} needs"
        return "Needs"


@dataclass(frozen=True)
class AlgoNeed(Need):
    """The same about keys of the algorithm by which a policy learns; one that does not have the key has no say in it."""

    @property
    def begin(self) -> str:
        if self.when:
            return f"{_values(self.when)} needs, of algorithms that have these keys,"
        return "Needs, of algorithms that have these keys,"


@dataclass(frozen=True)
class PolicyNeed:
    """What the policy has to be that a key is for."""

    test: Literal["only for", "not for", "plays"]
    names: tuple[str, ...]  # ways of acting, families of algorithms, or kinds of actions
    when: tuple[Any, ...] = ()
    why: str = ""

    def __str__(self) -> str:
        if self.test == "only for":
            actors = [ACTORS.get(name, name) for name in self.names]
            return f"only for {listed(actors, 'and')}"
        if self.test == "not for":
            return f"not for {listed(list(self.names))}"
        actions = [ACTIONS[name] for name in self.names]
        return f"only for {listed(actions)}"

    @property
    def sentence(self) -> str:
        told = str(self)
        if self.when:
            return f"{_values(self.when)} is {told}."
        return f"{told[0].upper()}{told[1:]}."

    def holds(self, acts: str, family: str, actions: Collection[str]) -> bool:
        """Whether it is such a policy: how it acts, by which family it learns, what kinds of actions its agents have."""
        if self.test == "only for":
            return acts in self.names
        if self.test == "not for":
            return family not in self.names
        return any(name in actions for name in self.names)


ACTORS = {
    "stochastic": "stochastic policies (ppo, a2c, marwil, ...)",
    "value": "policies by action values (dqn, vdn, qmix, ...)",
    "squashed": "the policies of sac",
    "deterministic": "deterministic policies (ddpg, td3, maddpg)",
    "nfsp": "the policies of nfsp",
    "table": "tables (q_learning, sarsa, monte_carlo)",
}
ACTIONS = {"coordinates": "coordinates (Box actions)", "choices": "choices (Discrete actions)"}


def needs(*any_of: Condition, when: tuple[Any, ...] = (), why: str = "") -> Need:
    return Need(any_of, when, why)


def algo_needs(condition: Condition, why: str, when: tuple[Any, ...] = ()) -> AlgoNeed:
    return AlgoNeed((condition,), when, why)


def only_for(*acts: str, why: str) -> PolicyNeed:
    """Policies that act in one of these ways alone have a use for the key."""
    return PolicyNeed("only for", acts, why=why)


def not_for(family: str, why: str, when: tuple[Any, ...] = ()) -> PolicyNeed:
    """Algorithms of this family have no use for the key."""
    return PolicyNeed("not for", (family,), when, why)


def plays(*actions: Literal["coordinates", "choices"], why: str = "") -> PolicyNeed:
    """The agents of the policy need actions of this kind."""
    return PolicyNeed("plays", actions, why=why)


@dataclass(frozen=True)
class Declared:
    """``json_schema_extra`` of a key: all that it needs."""

    needs: tuple[Need, ...] = ()
    algo_needs: tuple[AlgoNeed, ...] = ()
    policy_needs: tuple[PolicyNeed, ...] = ()
    unused: str = ""  # why the section has no use for this key at all, which it inherits

    def sentences(self) -> list[str]:
        """What a reader has to know, such as ``Needs kl_coeff above 0.``"""
        # One sentence for all that begins alike: a key with four needs would hide its own meaning behind them.
        wanted: dict[str, list[str]] = {}
        for need in (*self.needs, *self.algo_needs):
            wanted.setdefault(need.begin, []).append(str(need))
        told = [f"{begin} {', and '.join(conditions)}." for begin, conditions in wanted.items()]
        told += [need.sentence for need in self.policy_needs]
        if self.unused:
            told.append(f"Of no use here: {self.unused}.")
        return told

    def __call__(self, schema: dict[str, Any]) -> None:
        """Pydantic asks for what the key's JSON schema says besides; ``marl.config.Config`` tells the needs of all keys."""

    def joined(self, other: Declared) -> Declared:
        return replace(
            self,
            needs=(*self.needs, *other.needs),
            algo_needs=(*self.algo_needs, *other.algo_needs),
            policy_needs=(*self.policy_needs, *other.policy_needs),
            unused=self.unused or other.unused,
        )


def declare(*wanted: Need | PolicyNeed) -> Declared:
    """All of these have to hold."""
    of_keys: list[Need] = []
    of_algos: list[AlgoNeed] = []
    of_policies: list[PolicyNeed] = []
    for need in wanted:
        if isinstance(need, PolicyNeed):
            of_policies.append(need)
        elif isinstance(need, AlgoNeed):  # asked first: it is a Need as well
            of_algos.append(need)
        else:
            of_keys.append(need)
    return Declared(needs=tuple(of_keys), algo_needs=tuple(of_algos), policy_needs=tuple(of_policies))


def unused(why: str) -> Declared:
    """An inherited key that this section has no use for, whatever else is given."""
    return Declared(unused=why)


# -- checking ------------------------------------------------------------------------------------------------------


def refusals(section: object, declared: Mapping[str, Declared], defaults: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each key of a section that is given without what it needs."""
    for key, told in declared.items():
        value = getattr(section, key)
        default = defaults[key]
        if told.unused and value != default:
            with_value = shown(key, value)
            yield f"{with_value} means nothing here: {told.unused}. Drop {key}"
            continue
        asking = [need for need in told.needs if asks(need, value, default)]
        reason = first_missing(asking, section)
        if reason:
            with_value = shown(key, value)
            yield f"{with_value} {reason}, or drop {key}"


def first_missing(wanted: Iterable[Need], section: object) -> str:
    """One reason per key is enough: with the next ones, a message tells the same key's story twice."""
    for need in wanted:
        reason = missing(need, section)
        if reason:
            return reason
    return ""


def asks(need: Need | PolicyNeed, value: Any, default: Any) -> bool:
    """Whether a value of a key needs anything."""
    if need.when:
        return _is_among(value, need.when)
    return bool(value != default)


def missing(need: Need, section: object) -> str:
    """What is needed, what was got, and what to do; empty where nothing is missing."""
    got = []
    for condition in need.any_of:
        value = _value_at(section, condition.key)
        if condition.holds(value):
            return ""
        told = "not given"
        if not _is_empty(value):
            told = in_yaml(value)
        got.append(f"{condition.key} is {told}")
    remedies = [condition.remedy for condition in need.any_of]
    remedy = listed(remedies)
    advice = remedy[0].upper() + remedy[1:]  # not `capitalize`, which would write the keys in small letters
    found = listed(got, "and")
    return f"needs {need}, but {found}{because(need)}. {advice}"


def because(need: Need | PolicyNeed) -> str:
    """The reason of a need, in brackets; empty where the need says it all."""
    if not need.why:
        return ""
    return f" ({need.why})"


def _value_at(section: object, path: str) -> Any:
    """The value of a dotted key; None inside of a section that is not there."""
    # Dotted keys look down only: a section does not know in which scenario it stands.
    for part in path.split("."):
        section = getattr(section, part, None)
    return section


def _is_empty(value: Any) -> bool:
    """Nothing is given; 0 and false are something. What was given may be any object, so none is compared."""
    if isinstance(value, dict | list | tuple):
        return len(value) == 0
    return value is None


def _is_among(value: Any, values: tuple[Any, ...]) -> bool:
    """Like ``in``, but true and false are no numbers."""
    for one in values:
        # Python finds True in (1,), yet `clip_rewards: 1` and `clip_rewards: true` are different wishes.
        both_alike = isinstance(value, bool) == isinstance(one, bool)
        if both_alike and value == one:
            return True
    return False


# -- words ---------------------------------------------------------------------------------------------------------


def listed(words: list[str], last: str = "or") -> str:
    """``a, b or c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def _values(values: tuple[Any, ...]) -> str:
    return listed([in_yaml(value) for value in values])


def in_yaml(value: Any) -> str:
    """A value as it stands in a scenario file."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


LONGEST = 80  # beyond, a value hides the message


def shown(key: str, value: Any) -> str:
    """A key with its value."""
    text = in_yaml(_plain(value))
    if len(text) > LONGEST:
        return key
    return f"{key}: {text}"


def _plain(value: Any) -> Any:
    """Of sections only those keys that were changed."""
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    changed = getattr(value, "changed", None)
    if changed is None:
        return value
    names = changed(*type(value).model_fields)
    return {name: getattr(value, name) for name in names}
