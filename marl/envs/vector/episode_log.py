"""How an episode in the middle comes back after a restart: the env's own state, or its seed and action log."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from marl.data.task import AgentID, Array
from marl.envs.base import Action, MultiAgentEnv
from marl.envs.batched import State
from marl.envs.tasks import TaskMemory, tell
from marl.errors import EnvError

if TYPE_CHECKING:
    from marl.envs.vector.vector_env import DictVector

LONGEST_REPLAY = 10_000  # env steps; a longer episode of an env without get_state is started anew


class EpisodeLog:
    """One copy's way back into its running episode.

    An env with ``get_state``/``set_state`` is asked for its state. Any other env is reset with the same seed and
    given the same actions again; a fingerprint of what it shows then tells whether it really repeated itself.
    """

    def __init__(self, env: MultiAgentEnv) -> None:
        self.env = env
        can_store = callable(getattr(env, "get_state", None))
        can_restore = callable(getattr(env, "set_state", None))
        self.has_state = can_store and can_restore
        self.seed: int | None = None
        self.options: Mapping[str, Any] = {}  # of the reset; kept in memory only, training resets without any
        self.steps = 0
        self.actions: list[dict[AgentID, Action]] = []
        self.told_first: TaskMemory = {}  # before the reset
        self.told_later: list[tuple[int, str, Any]] = []  # after so many steps, by which method, what

    def start(self, seed: int, told: TaskMemory | None = None, options: Mapping[str, Any] | None = None) -> None:
        self.seed = seed
        self.options = options or {}
        self.steps = 0
        self.actions = []
        self.told_first = dict(told or {})
        self.told_later = []

    def note_task(self, verb: str, task: Any) -> None:
        """The env was told something in the middle of its episode."""
        if self.seed is not None and not self.has_state:
            self.told_later.append((self.steps, verb, task))

    def record(self, actions: dict[AgentID, Action]) -> None:
        self.steps += 1
        # A longer episode is not replayed, so its actions would only fill the memory.
        if not self.has_state and self.steps <= LONGEST_REPLAY:
            self.actions.append(actions)

    def snapshot(self, shown: Sequence[Array]) -> State:
        common: dict[str, Any] = {"seed": self.seed, "steps": self.steps, "fingerprint": fingerprint(shown)}
        if self.has_state:
            return {**common, "state": self.env.get_state()}  # type: ignore[attr-defined]
        # Actions as plain lists and numbers: files hold no objects of numpy's.
        log = []
        for step in self.actions:
            log.append([[agent, _plain(action)] for agent, action in step.items()])
        if self.options:
            common["options"] = self.options
        return {**common, "actions": log, "told_first": dict(self.told_first), "told_later": list(self.told_later)}

    def adopt(self, saved: State) -> None:
        """Give an env of its own state that state back."""
        self.seed, self.steps = saved["seed"], saved["steps"]
        self.env.set_state(saved["state"])  # type: ignore[attr-defined]

    def replayed(self, saved: State) -> Iterator[dict[AgentID, Action]]:
        """The logged actions, as the env took them."""
        for step in saved["actions"]:
            actions: dict[AgentID, Action] = {}
            for agent, action in step:
                actions[agent] = self._native(agent, action)
            yield actions

    def _native(self, agent: AgentID, action: Any) -> Action:
        if not isinstance(action, list):
            return action
        space = self.env.action_space(agent)
        return np.asarray(action, space.dtype).reshape(space.shape or ())


def bring_back(vector: DictVector, env_id: int, saved: State, last_told: TaskMemory) -> bool:
    """Put one env back into the middle of its episode; False where that would take too long."""
    if "state" in saved:
        tell(vector.sub_env(env_id), last_told, vector.told[env_id])
        vector.logs[env_id].adopt(saved)
        return True
    if saved["seed"] is None or saved["steps"] > LONGEST_REPLAY:
        tell(vector.sub_env(env_id), last_told, vector.told[env_id])
        return saved["seed"] is None
    # An episode that is replayed begins with the tasks of its beginning, and is told the others when they were told.
    tell(vector.sub_env(env_id), saved.get("told_first", {}), vector.told[env_id])
    vector.reset_copy(env_id, saved["seed"], saved.get("options"))
    for step, actions in enumerate(vector.logs[env_id].replayed(saved)):
        _tell_again(vector, env_id, saved, step)
        vector.step_copy(env_id, actions)
    _tell_again(vector, env_id, saved, saved["steps"])
    tell(vector.sub_env(env_id), last_told, vector.told[env_id])
    if fingerprint(vector.shown(env_id)) != saved["fingerprint"]:
        raise EnvError(
            f"{vector.where(env_id)}: replaying the episode from its seed and its logged actions led elsewhere, so the run "
            "cannot go on exactly. Give the env get_state() and set_state(), or set fresh_env_per_episode: true if it "
            "only remembers something over resets."
        )
    return True


def _tell_again(vector: DictVector, env_id: int, saved: State, steps: int) -> None:
    """What the env was told after so many steps of the episode."""
    for when, verb, task in saved.get("told_later", ()):
        if when == steps:
            method = getattr(vector.sub_env(env_id), verb)
            method(task)


def fingerprint(arrays: Sequence[Array]) -> str:
    """A short hash of what the env shows."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def _plain(action: Action) -> Any:
    if isinstance(action, np.ndarray | np.generic):
        return action.tolist()
    return action
