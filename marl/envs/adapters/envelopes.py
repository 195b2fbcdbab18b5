"""Legal-action masks inside of Dict observations: which part is the mask, and what of the rest is the observation.

The form that everybody behind the adapters knows is ``{"observation": ..., "action_mask": ...}``. RLlib's envs say
``observations`` and ``avail_actions``, others put several parts beside the mask. An ``Envelope`` brings them into that form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from gymnasium import spaces

from marl.data.actions import columns_of
from marl.data.task import AgentID, AnySpace
from marl.envs.base import ENV_STATE, Obs
from marl.envs.vector.layout import MASK
from marl.errors import EnvError, UserError

OBSERVATION = "observation"
MASKS = (MASK, "avail_actions")
"""Keys under which envs give a mask. The second one may also hold something else, such as a vector for each action."""
ORDINARY = "action_mask_of_other_size"
"""What a mask is called that does not fit the actions: an observation like any other."""


@dataclass(frozen=True)
class Envelope:
    """How a Dict observation is read: ``parts`` are the keys of the observation proper; one alone stands for itself."""

    mask: str | None
    parts: tuple[str, ...]
    state: bool
    space: AnySpace  # in the form that everybody knows

    def opened(self, agent: AgentID, value: Obs) -> Obs:
        """An observation as the env gives it, in the known form."""
        self._check(agent, value)
        if self.mask is None:
            return {_ordinary(key): value[key] for key in self.parts}
        shown: dict[str, Obs] = {OBSERVATION: _proper(value, self.parts)}
        if self.mask in value:
            shown[MASK] = np.asarray(value[self.mask]).reshape(-1)
        if self.state and ENV_STATE in value:
            shown[ENV_STATE] = value[ENV_STATE]
        return shown

    def _check(self, agent: AgentID, value: Obs) -> None:
        is_dict = isinstance(value, Mapping)
        if is_dict and value.keys() >= set(self.parts):
            return
        got = f"the type {type(value).__name__}"
        if is_dict:
            keys = ", ".join(map(repr, value))
            got = f"the keys {keys}"
        expected = ", ".join(map(repr, self.parts))
        raise EnvError(
            f"the observation of agent {agent!r} has {got}; its space is a Dict with {expected}. Give what the space "
            "announces."
        )


def envelope_of(space: AnySpace, actions: AnySpace) -> Envelope | None:
    """The way to the known form; None where the space has it already, or holds no mask."""
    options = number_of_options(actions)
    if not isinstance(space, spaces.Dict):
        return None
    if options == 0:
        # Masks are for choices: what is given for other actions is refused where the kinds are told apart.
        return None
    mask = _mask_key(space, options)
    if mask is None:
        return _renamed(space)
    return _with_mask(space, mask, options)


def _with_mask(space: spaces.Dict, mask: str, options: int) -> Envelope | None:
    parts = list(space.spaces)
    parts.remove(mask)
    has_state = ENV_STATE in parts
    if has_state:
        parts.remove(ENV_STATE)
    if mask == MASK and parts in ([OBSERVATION], ["obs"]):
        return None  # it has the known form
    state = has_state
    if not parts:  # beside a mask alone the state is what the agent sees
        parts = [ENV_STATE]
        state = False
    proper = _proper(space.spaces, parts)
    if not isinstance(proper, spaces.Space):
        proper = spaces.Dict(proper)
    known: dict[str, AnySpace] = {OBSERVATION: proper, MASK: spaces.MultiBinary(options)}
    if state:
        known[ENV_STATE] = space.spaces[ENV_STATE]
    return Envelope(mask, tuple(parts), state, spaces.Dict(known))


def number_of_options(actions: AnySpace) -> int:
    """Entries of a mask over these actions; 0 where none of them is a choice."""
    try:
        return columns_of(actions).options
    except UserError:  # a space that nobody can play: it is told where the kinds are
        return 0


def has_mask(space: AnySpace, actions: AnySpace) -> bool:
    """Whether observations of this space come with a mask."""
    options = number_of_options(actions)
    if not isinstance(space, spaces.Dict):
        return False
    if options == 0:
        return False
    return _mask_key(space, options) is not None


def unpacked(given: Mapping[str, Obs], space: AnySpace) -> tuple[Obs, Obs | None]:
    """The observation proper, of a ``space``, and the mask (None: there is none) of an observation as an env gave it."""
    inside: Mapping[str, AnySpace] = {}
    if isinstance(space, spaces.Dict):
        inside = space.spaces
    rest = dict(given)
    mask: Obs | None = None
    for key in MASKS:
        if key in given and key not in inside:
            mask = rest.pop(key)
            break
    return _found_in(rest, inside), mask


def _found_in(rest: Mapping[str, Obs], inside: Mapping[str, AnySpace]) -> Obs:
    """What is observed, of the parts beside the mask; ``inside``: the parts of a Dict space."""
    has_all = rest.keys() >= inside.keys()
    if inside and has_all:
        named: dict[str, Obs] = {}
        for key in inside:
            named[key] = rest[key]
        return named
    # The usual names go first: a caller may hand in more than the policy was trained on.
    if OBSERVATION in rest:
        return rest[OBSERVATION]
    if "obs" in rest:
        return rest["obs"]
    parts = list(rest)
    if ENV_STATE in parts:
        parts.remove(ENV_STATE)
    if not parts:
        # Beside a mask alone the state is what the agent sees.
        parts = [ENV_STATE]
    return _proper(rest, parts)


def _mask_key(space: spaces.Dict, options: int) -> str | None:
    for key in MASKS:
        part = space.spaces.get(key)
        if not isinstance(part, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete):
            continue
        fits = int(np.prod(part.shape)) == options
        if fits and (key == MASK or _is_yes_or_no(part)):
            return key
    return None


def _is_yes_or_no(part: AnySpace) -> bool:
    """Whether all numbers lie between 0 and 1."""
    if isinstance(part, spaces.Box):
        lowest, highest = part.low.min(), part.high.max()
        return bool(lowest >= 0 and highest <= 1)
    if isinstance(part, spaces.MultiDiscrete):
        return bool((part.nvec == 2).all())
    return isinstance(part, spaces.MultiBinary)


def _renamed(space: spaces.Dict) -> Envelope | None:
    """A mask of another size under a name that nobody takes for one; None where there is none, or it is not taken for one."""
    if MASK not in space.spaces:
        return None
    is_taken_for_one = OBSERVATION in space.spaces or "obs" in space.spaces
    if not is_taken_for_one:
        return None
    renamed: dict[str, AnySpace] = {}
    for key, part in space.spaces.items():
        renamed[_ordinary(key)] = part
    return Envelope(mask=None, parts=tuple(space.spaces), state=False, space=spaces.Dict(renamed))


def _ordinary(key: str) -> str:
    return ORDINARY if key == MASK else key


def _proper(given: Mapping[str, Obs], parts: list[str] | tuple[str, ...]) -> Obs:
    """The part that is left; several of them stay a dict."""
    if len(parts) == 1:
        return given[parts[0]]
    return {key: given[key] for key in parts}
