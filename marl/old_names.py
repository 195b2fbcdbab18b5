"""Names that modules and classes had before they were moved: scenarios and checkpoints written then still hold them.

A checkpoint says ``env: marl.envs.hierarchy.world:HierarchicalEnv`` for as long as it lies on a disk. Only what a file can
name is listed: envs, wrappers, scripted opponents, callbacks and the env of ``check_learner``; algorithms and models
have not moved.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from typing import Any

from marl.errors import printable

log = logging.getLogger(__name__)

MODULES = {
    "marl.envs.foreign.stage": "marl.envs.adapters.pettingzoo_episode",
    "marl.envs.foreign.exchange": "marl.envs.adapters.pettingzoo_spaces",
    "marl.envs.foreign.extras": "marl.envs.adapters.optional",
    "marl.envs.foreign": "marl.envs.adapters",
    "marl.envs.lifting.single_lane": "marl.envs.vector.unbatched",
    "marl.envs.lifting.vector": "marl.envs.vector.vector_env",
    "marl.envs.lifting": "marl.envs.vector",
    "marl.envs.joint": "marl.envs.wrappers.joint",
    "marl.envs.partial": "marl.envs.wrappers.partial",
    "marl.envs.pixels": "marl.envs.wrappers.pixels",
    "marl.envs.hierarchy.world": "marl.envs.hierarchy.env",
    "marl.envs.hierarchy.posts": "marl.envs.hierarchy.positions",
    "marl.envs.hierarchy.command": "marl.envs.hierarchy.command_graph",
    "marl.envs.games.particles.bodies": "marl.envs.games.particles.physics",
    "marl.envs.games.particles.fleeing": "marl.envs.games.particles.scripted_prey",
    "marl.data.callbacks": "marl.callbacks.callbacks",
    "marl.training.signs": "marl.testing.sign_env",
}
"""Old module to new one; a package stands for all that is in it and not listed itself."""

OBJECTS = {
    "marl.envs.adapters.adapt:as_world": "as_env",
    "marl.envs.adapters.gymnasium:GymnasiumWorld": "GymnasiumEnv",
    "marl.envs.adapters.lbforaging:ForagingWorld": "ForagingEnv",
    "marl.envs.adapters.lbforaging:foraging_world": "foraging_env",
    "marl.envs.adapters.openspiel:OpenSpielWorld": "OpenSpielEnv",
    "marl.envs.adapters.openspiel:openspiel_world": "openspiel_env",
    "marl.envs.adapters.pettingzoo:PettingZooWorld": "PettingZooEnv",
    "marl.envs.adapters.pettingzoo:ParallelWorld": "PettingZooParallelEnv",
    "marl.envs.adapters.pettingzoo:TurnBasedWorld": "PettingZooTurnBasedEnv",
    "marl.envs.adapters.vmas:VmasWorld": "VmasEnv",
    "marl.envs.adapters.vmas:vmas_world": "vmas_env",
    "marl.envs.registry:make_world": "make_batched_env",
    "marl.envs.wrappers.joint:GroupedWorld": "GroupedEnv",
}
"""New module and old name to the new name of a class or function."""


def current_name(name: str) -> str:
    """What ``package.module:name``, or a module, is called today; other texts stay as they are."""
    module, colon, attribute = name.partition(":")
    module = _current_module(module)
    return f"{module}{colon}{OBJECTS.get(f'{module}:{attribute}', attribute)}"


def _current_module(module: str) -> str:
    above = module
    while above:  # the module itself, then the packages around it
        if above in MODULES:
            return MODULES[above] + module.removeprefix(above)
        above = above.rpartition(".")[0]
    return module


def up_to_date(name: str) -> str:
    """``current_name``; an old one is told to the user, once."""
    current = current_name(name)
    if current != name:
        _tell(name, current)
    return current


@cache
def _tell(old: str, new: str) -> None:
    log.warning("%s is called %s now. Use the new name in scenarios.", printable(old), printable(new))


def with_current_names(value: Any) -> Any:
    """A scenario out of a file with all its names as they are today."""
    if isinstance(value, str):
        return up_to_date(value)
    if isinstance(value, list):
        return [with_current_names(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    current = {}
    for key, item in value.items():
        if isinstance(key, str):
            key = up_to_date(key)  # envs of a hierarchy's levels, callbacks and mappings stand there
        current[key] = with_current_names(item)
    return current
