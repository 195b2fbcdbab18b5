"""What a worker needs for matches and keeps for the next ones: copies of the env, and the policies that it has built."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeAlias
from weakref import WeakKeyDictionary, finalize

from marl.envs.batched import BatchedEnv
from marl.envs.registry import resolve_env
from marl.envs.vector.env_errors import close_all
from marl.policies.policy import Policy
from marl.populations.members import Member, Played, build
from marl.rollout.config import EnvRecipe
from marl.rollout.worker import RolloutWorker

DICT_BATCH, NATIVE_BATCH = 64, 512  # episodes per batch
DICT_LANES = 32  # copies of a dict env, which are stepped one by one; a native env has a lane for each episode
POLICIES_KEPT = 64  # built policies that a worker keeps for later batches

MemberKey: TypeAlias = str


def is_native(recipe: EnvRecipe) -> bool:
    """Whether copies of the env are stepped together, so that many of them cost little more than one."""
    creator = resolve_env(recipe.env)
    return isinstance(creator, type) and issubclass(creator, BatchedEnv) and not recipe.wrappers


def episodes_per_batch(recipe: EnvRecipe) -> int:
    return NATIVE_BATCH if is_native(recipe) else DICT_BATCH


class Arena:
    """A worker's copies of the env for matches, and the policies that it has built."""

    def __init__(self, worker: RolloutWorker) -> None:
        self._most_lanes = NATIVE_BATCH if is_native(worker.spec.env_recipe) else DICT_LANES
        self._envs: dict[int, BatchedEnv] = {}
        self._policies: OrderedDict[tuple[MemberKey, bool], Policy] = OrderedDict()

    def copies(self, worker: RolloutWorker, episodes: int) -> BatchedEnv:
        """A lane per episode, rounded up to a power of two: the number follows from the batch alone."""
        env_ids = min(1 << (episodes - 1).bit_length(), self._most_lanes)
        if env_ids not in self._envs:
            self._envs[env_ids] = worker.make_copies(env_ids)
        return self._envs[env_ids]

    def policy(self, worker: RolloutWorker, member: Member, explore: bool | None) -> Policy:
        """Built when first needed; those that were not needed for longest are forgotten."""
        explores = member.draws_actions if explore is None else explore
        place = (member.key, explores)
        if place not in self._policies:
            self._policies[place] = Played(build(member, worker.spec.task.kinds), explores)
        self._policies.move_to_end(place)
        if len(self._policies) > POLICIES_KEPT:
            self._policies.popitem(last=False)
        return self._policies[place]

    def close(self) -> None:
        for env in self._envs.values():
            close_all([env], env.name)


_arenas: WeakKeyDictionary[RolloutWorker, Arena] = WeakKeyDictionary()


def arena_of(worker: RolloutWorker) -> Arena:
    """The worker's own; it goes with the worker."""
    if worker not in _arenas:
        _arenas[worker] = Arena(worker)
        finalize(worker, _arenas[worker].close)
    return _arenas[worker]
