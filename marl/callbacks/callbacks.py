"""The user's own code at the turning points of a run.

A class derived from ``Callbacks`` overrides the hooks that it wants; the others cost nothing. ``callbacks`` takes the
class, an object of it, a dict of functions, or ``package.module:Class``. A hook is called with keywords, of which it gets
those that it lists (all of them with ``**kwargs``); a function of one argument called ``info`` gets them as a dict.

Every worker has an object of its own, and so has the trainer; with ``num_workers: 0`` the two share one.
"""

from __future__ import annotations

import copy
import inspect
import traceback
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from marl.callbacks.running_episode import RunningEpisode, restored, storable
from marl.errors import CallbackError, ConfigError, did_you_mean, let_through
from marl.registry import load_object
from marl.trust import Sort

Info: TypeAlias = Mapping[str, Any]

_EPISODE = ("worker", "base_env", "policies", "episode", "env_index")
HOOKS: dict[str, tuple[str, ...]] = {
    "on_episode_start": _EPISODE,
    "on_episode_step": _EPISODE,
    "on_episode_end": _EPISODE,
    "on_postprocess_trajectory": (
        "worker", "episode", "agent_id", "policy_id", "policies", "postprocessed_batch", "original_batches",
    ),
    "on_sample_end": ("worker", "samples"),
    "on_learn_on_batch": ("policy", "policy_id", "train_batch", "result"),
    "on_train_result": ("trainer", "result"),
    "on_evaluate_end": ("trainer", "evaluation_metrics"),
    "on_checkpoint": ("trainer", "path"),
}  # fmt: skip
"""What each hook is called with."""

EPISODE_HOOKS = ("on_episode_start", "on_episode_step", "on_episode_end", "on_postprocess_trajectory")


class Callbacks:
    """Override what you need. Objects may keep numbers in attributes; those that a resumed run needs go through
    ``get_state`` and ``set_state``.

    ``worker`` is the ``RolloutWorker``, ``base_env`` its copies of the env (``base_env.sub_env(env_index)`` is one of
    them), ``policies`` the policies by id, ``episode`` the ``RunningEpisode``.
    """

    def on_episode_start(
        self, *, worker: Any, base_env: Any, policies: Any, episode: RunningEpisode, env_index: int, **kwargs: Any
    ) -> None:
        """The env was reset and shows its first observations."""

    def on_episode_step(
        self, *, worker: Any, base_env: Any, policies: Any, episode: RunningEpisode, env_index: int, **kwargs: Any
    ) -> None:
        """After every env step, the last one included."""

    def on_episode_end(
        self, *, worker: Any, base_env: Any, policies: Any, episode: RunningEpisode, env_index: int, **kwargs: Any
    ) -> None:
        """After the last step, before the env is reset."""

    def on_postprocess_trajectory(
        self, *, worker: Any, episode: RunningEpisode, agent_id: str, policy_id: str, policies: Any,
        postprocessed_batch: Any, original_batches: Any, **kwargs: Any,
    ) -> None:  # fmt: skip
        """The decisions of one agent in one episode that a fragment completed, before anybody learns from them: what is
        changed in ``postprocessed_batch`` is learned from. ``original_batches`` are those of all agents of the episode,
        unchanged."""

    def on_sample_end(self, *, worker: Any, samples: Any, **kwargs: Any) -> None:
        """A worker has played its fragment; ``samples`` is the whole grid."""

    def on_learn_on_batch(self, *, policy: Any, policy_id: str, train_batch: Any, result: Any, **kwargs: Any) -> None:
        """A policy is about to learn from ``train_batch``; numbers put into ``result`` stand among its learner_stats."""

    def on_train_result(self, *, trainer: Any, result: Any, **kwargs: Any) -> None:
        """An iteration is over. What is put into ``result`` is written down with it."""

    def on_evaluate_end(self, *, trainer: Any, evaluation_metrics: Any, **kwargs: Any) -> None:
        """An evaluation is over. What is put into ``evaluation_metrics`` is written down with it."""

    def on_checkpoint(self, *, trainer: Any, path: Any, **kwargs: Any) -> None:
        """A checkpoint was written to ``path``."""

    def get_state(self) -> Any:
        """What this object has to remember over a restart: numbers, texts, lists, dicts, arrays."""
        return None

    def set_state(self, state: Any) -> None:
        """Take what ``get_state`` gave."""


CALLBACKS = Sort("callbacks", (Callbacks,), (Callbacks,), rooms=("marl.callbacks.callbacks",))


class Hooks:
    """Callbacks ready to be called: only those hooks that somebody wrote."""

    def __init__(self, name: str, functions: Mapping[str, Callable[..., Any]], owner: Callbacks | None = None) -> None:
        self.name, self.owner = name, owner
        self._functions = dict(functions)
        self._calls: dict[str, Callable[[Info], Any]] = {}
        for hook, function in functions.items():
            self._calls[hook] = _caller(f"{name}.{hook}", hook, function)

    def __contains__(self, hook: str) -> bool:
        return hook in self._calls

    @property
    def watches_episodes(self) -> bool:
        """Whether any hook is given episodes."""
        return any(hook in self._calls for hook in EPISODE_HOOKS)

    def __call__(self, hook: str, **info: Any) -> None:
        """Call the hook, if there is one; whatever goes wrong in it is a ``CallbackError``."""
        call = self._calls.get(hook)
        if call is None:
            return
        try:
            call(info)
        except BaseException as error:
            let_through(error)
            raise CallbackError(
                f"callback {self.name}.{hook} failed{_where(info)}: {type(error).__name__}: {error}"
                f"{_line(error, self._functions[hook])}. Mend it; a run that has a checkpoint can go on from there."
            ) from error

    def state_dict(self) -> Any:
        if self.owner is None:
            return None
        state = self.owner.get_state()
        if state is None:
            return None
        return {"of": self.name, "state": storable(state, f"the state of {self.name}")}

    def load_state_dict(self, saved: Any) -> None:
        """Go on with a saved state; callbacks that are others now begin anew."""
        if saved is None or self.owner is None:
            return
        if saved["of"] == self.name:
            self.owner.set_state(restored(saved["state"]))


def make_hooks(given: object, own: bool = True) -> Hooks:
    """What ``callbacks`` means. An object is used as it is, or, with ``own``, copied as Ray copies it to its workers."""
    found = given
    if isinstance(given, str):
        found = load_object(given, CALLBACKS)
    if found is None:
        return Hooks("callbacks", {})
    if isinstance(found, Mapping):
        functions: dict[str, Callable[..., Any]] = {}
        for hook, value in found.items():
            functions[str(hook)] = _function(str(hook), value)
        return Hooks("callbacks", functions)
    if isinstance(found, type) and issubclass(found, Callbacks):
        return _hooks_of(_built(found))
    if isinstance(found, Callbacks):
        if own:
            found = copy.deepcopy(found)  # so that workers of this process share as little as those of Ray
        return _hooks_of(found)
    raise ConfigError(
        f"callbacks is {found!r}; expected a class derived from marl.Callbacks, an object of it, a dict of functions such as "
        '{"on_episode_end": fn}, or package.module:Class.'
    )


def _built(found: type[Callbacks]) -> Callbacks:
    try:
        return found()
    except BaseException as error:
        let_through(error)
        raise ConfigError(
            f"callbacks {found.__name__} could not be built: {type(error).__name__}: {error}. It is called without arguments; "
            "give an object instead of the class if it needs some."
        ) from error


def _hooks_of(owner: Callbacks) -> Hooks:
    for name in dir(type(owner)):
        if name.startswith("on_") and name not in HOOKS:  # mistyped: it would never be called
            _refuse_unknown(f"{type(owner).__name__}.{name}", name)
    written: dict[str, Callable[..., Any]] = {}
    for hook in HOOKS:
        function = getattr(owner, hook)
        plain = getattr(function, "__func__", function)  # without the object that it is bound to
        if plain is not getattr(Callbacks, hook):
            written[hook] = function
    return Hooks(type(owner).__name__, written, owner)


def _function(hook: str, given: object) -> Callable[..., Any]:
    if hook not in HOOKS:
        _refuse_unknown(f"callbacks.{hook}", hook)
    found = given
    if isinstance(given, str):
        found = load_object(given, Sort(f"callbacks.{hook}", creators=True))
    if not callable(found):
        raise ConfigError(
            f"callbacks.{hook} is {given!r} ({type(given).__name__}); expected a function, or package.module:function."
        )
    return found


def _refuse_unknown(what: str, hook: str) -> None:
    raise ConfigError(f"{what}: there is no hook {hook!r}.{did_you_mean(hook, HOOKS)} Hooks: {', '.join(HOOKS)}.")


def _caller(name: str, hook: str, function: Callable[..., Any]) -> Callable[[Info], Any]:
    """Hands the hook what its signature asks for."""
    single, takes_all = _parameters(function)
    names = [parameter.name for parameter in single]
    if names == ["info"] and not takes_all:
        return function  # it takes one dict with everything
    _check_names(name, hook, single)
    if takes_all:
        return lambda info: function(**info)
    wanted = [key for key in names if key in HOOKS[hook]]

    def call_with_wanted(info: Info) -> Any:
        asked_for = {key: info[key] for key in wanted}
        return function(**asked_for)

    return call_with_wanted


def _parameters(function: Callable[..., Any]) -> tuple[list[inspect.Parameter], bool]:
    """Those that have a name of their own, and whether ``**`` takes all others."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # written in C: it knows what it does
        return [], True
    single: list[inspect.Parameter] = []
    takes_all = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_all = True
        else:
            single.append(parameter)
    return single, takes_all


def _check_names(name: str, hook: str, parameters: list[inspect.Parameter]) -> None:
    for parameter in parameters:
        if parameter.default is not parameter.empty:
            continue
        by_name = parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        if parameter.name not in HOOKS[hook] or not by_name:
            raise ConfigError(
                f"{name} asks for {parameter.name!r}, which it cannot be given.{did_you_mean(parameter.name, HOOKS[hook])} It "
                f"may list any of {', '.join(HOOKS[hook])} as keywords, or take one argument `info` with all of them."
            )


def _where(info: Info) -> str:
    """Which episode, worker or iteration a hook was called for."""
    places = []
    if "episode" in info:
        episode = info["episode"]
        places.append(f"episode {episode.episode_id}, step {episode.length}, copy {episode.env_index}")
        if episode.evaluating:
            places.append("evaluation")
    if "agent_id" in info:
        places.append(f"agent {info['agent_id']!r}")
    if "policy_id" in info:
        places.append(f"policy {info['policy_id']!r}")
    if "worker" in info:
        places.append(f"worker {info['worker'].index}")
    if "trainer" in info:
        places.append(f"iteration {info['trainer'].iteration}")
    if not places:
        return ""
    return f" ({', '.join(places)})"


def _line(error: BaseException, function: Callable[..., Any]) -> str:
    """The last line of the hook's own file that was reached: where to look first."""
    plain = getattr(function, "__func__", function)
    code = getattr(plain, "__code__", None)
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    last = frames[-1]
    for frame in frames:
        if code is not None and frame.filename == code.co_filename:
            last = frame
    text = ""
    if last.line:  # what was typed into a shell has no source
        text = f": {last.line}"
    return f" (at {last.filename}:{last.lineno}, in {last.name}{text})"
