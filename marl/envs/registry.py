"""From the word behind ``env:`` to copies of an env."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeAlias

import gymnasium as gym
from pydantic import ValidationError

from marl.config import Config, explain
from marl.data.task import number_seats
from marl.envs.adapters.creators import call_creator
from marl.envs.adapters.gymnasium_ids import gymnasium_creator
from marl.envs.adapters.optional import pip_hint
from marl.envs.adapters.pettingzoo import from_pettingzoo
from marl.envs.adapters.pettingzoo_names import pettingzoo_creator
from marl.envs.base import EnvContext, MultiAgentEnv
from marl.envs.batched import BatchedEnv
from marl.envs.families import ENV_FAMILIES, check_family_places, family_of, forms
from marl.envs.vector.unbatched import SingleLane
from marl.envs.vector.vector_env import DictVector
from marl.envs.wrappers import Wrapping, read_wrappers, wrap
from marl.errors import ConfigError, EnvError, UnknownNameError, UserError, did_you_mean, let_through
from marl.failures import line_of_code
from marl.registry import Registry, import_module, load_object
from marl.trust import Sort

EnvCreator: TypeAlias = Callable[..., Any]
"""A class or function that takes the ``env_config`` and gives a ``MultiAgentEnv``, Gymnasium or PettingZoo env;
or a ``BatchedEnv`` class, which takes the number of copies first."""

ENVS: Registry[EnvCreator] = Registry("env")
ENV = Sort("env", (MultiAgentEnv, BatchedEnv, gym.Env), creators=True, rooms=("marl.envs", "marl.testing.sign_env"))


def register_env(name: str, creator: EnvCreator | str) -> None:
    """Make ``env: name`` work. ``creator`` may also be ``package.module:name``, which Ray workers load by themselves."""
    if isinstance(creator, str):
        creator = _ByName(creator)  # not loaded yet: networkx, for instance, takes long to import
    _check_creator(name, creator)
    ENVS.put(name, creator)


def register_built_in(name: str, creator: EnvCreator | str) -> None:
    """The same for an env of marl: other processes know it by themselves."""
    if isinstance(creator, str):
        creator = _ByName(creator)
    ENVS.register(name, creator)


def register_pettingzoo(name: str, creator: EnvCreator | ModuleType | str) -> None:
    """Make ``env: name`` a PettingZoo env, parallel or turn-based.

    ``creator`` is a function of keyword arguments (``tictactoe_v3.env``), which get the ``env_config``, a module, or a path
    ``pettingzoo.classic.tictactoe_v3`` (then ``parallel_env`` is taken where there is one) or ``package.module:function``.
    """
    if isinstance(creator, ModuleType):
        creator = pettingzoo_creator(creator, creator.__name__)
    if not isinstance(creator, str):
        _check_creator(name, creator)
    ENVS.put(name, _PettingZoo(creator))


def _check_creator(name: str, creator: object) -> None:
    if not callable(creator):
        raise ConfigError(
            f"env {name!r} is registered with an object of type {type(creator).__name__}. Expected a class or a function that "
            "makes the env, so that every copy is a new one."
        )


class _PettingZoo:
    """Builds a PettingZoo env from a module, a path or a function."""

    def __init__(self, creator: EnvCreator | str) -> None:
        self.creator = creator

    def __call__(self, config: EnvContext) -> MultiAgentEnv:
        creator = self.creator
        if isinstance(creator, str):
            if ":" in creator:
                creator = _callable(creator)
            else:
                module = import_module(creator, "env")
                creator = pettingzoo_creator(module, creator)
        return from_pettingzoo(call_creator(creator, config))


class _ByName:
    """A creator that is looked up when it is first needed."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, config: EnvContext) -> Any:
        return call_creator(_callable(self.path), config, self.path)


def resolve_env(env: str | EnvCreator) -> EnvCreator:
    """The creator behind a registered name, ``prefix:name`` of a family, ``package.module:Class`` or a Gymnasium id."""
    if not isinstance(env, str):
        return env
    import marl.envs.catalog  # noqa: F401  (the built-in games register themselves)

    if env in ENVS:
        found = ENVS[env]
        if isinstance(found, _ByName):
            # The class itself: only so is a natively batched env seen to be one.
            return _callable(found.path)
        return found
    found_family = family_of(env)
    if found_family is not None:
        family, name = found_family
        return family.creator(name)
    by_id = gymnasium_creator(env)
    if by_id is not None:
        return by_id
    if ":" in env:
        return _by_path(env)
    known = [*ENVS, *gym.registry]
    raise UnknownNameError(
        f"unknown env {env!r}.{did_you_mean(env, known)} Expected a registered name ({', '.join(ENVS)}), "
        f"{forms()}, package.module:Class, or a Gymnasium id such as CartPole-v1 (Atari games such as ALE/Pong-v5: "
        "pip install 'gymnasium[atari]'). A name that a program registered has to be registered again, by a module under "
        "imports."
    )


def _by_path(env: str) -> EnvCreator:
    """What ``package.module:name`` names; where there is no such thing it may be a mistyped name of ours."""
    try:
        return _callable(env)
    except ConfigError as error:
        prefix, _, _ = env.partition(":")
        ours = [name for name in ENVS if name.startswith(f"{prefix}:")]
        if ours:
            raise UnknownNameError(
                f"there is no env {env!r}. Known: {', '.join(ours)}.{did_you_mean(env, ours)}"
            ) from error
        package, _, _ = prefix.partition(".")
        pip = pip_hint(package)
        if pip and isinstance(error.__cause__, ImportError):
            raise ConfigError(f"{error}{pip}") from error
        raise ConfigError(f"{error}{_near(env)}") from error


def _near(env: str) -> str:
    """Two ways of being near: a name of ours with a colon, such as fast:simple_tag, or the prefix of a family."""
    prefix, _, rest = env.partition(":")
    hint = did_you_mean(env, [name for name in ENVS if ":" in name])
    near = did_you_mean(prefix, ENV_FAMILIES.names)
    if hint or not near:
        return hint
    said = near.rstrip("?").rstrip("'")
    return f"{said}:{rest}'?"  # " Did you mean 'pettingzoo'?" becomes one about the whole name


def make_batched_env(
    env: str | EnvCreator,
    num_envs: int,
    env_config: Mapping[str, Any],
    *,
    worker_index: int = 0,
    num_workers: int = 0,
    fresh_env_per_episode: bool = False,
    with_state: bool = True,
    wrappers: Sequence[Wrapping] = (),
    render_mode: str | None = None,
    seed: int = 0,
    remote: bool = False,
) -> BatchedEnv:
    """``num_envs`` copies of the env behind the array API; dict envs are not asked for a state that nobody needs.

    ``render_mode`` is for envs that draw only if they were built for it.
    """
    creator = resolve_env(env)
    check_family_places(env, env_config)
    name = _name_of(env, type(env).__name__)
    native = _native(creator)
    if native is not None and not wrappers:
        context = EnvContext(env_config, worker_index, 0, num_workers, render_mode, seed, remote)
        batched_env: BatchedEnv = _guard(name, lambda: native(num_envs, context))
        batched_env.kinds = number_seats(batched_env.kinds)
        return batched_env

    def create(env_id: int) -> MultiAgentEnv:
        context = EnvContext(env_config, worker_index, env_id, num_workers, render_mode, seed, remote)
        return wrap(_build(creator, name, context), wrappers, name)

    envs = [create(env_id) for env_id in range(num_envs)]
    fresh = create if fresh_env_per_episode else None
    # Guarded as well: it asks the user's env for its spaces.
    found: DictVector = _guard(name, lambda: DictVector(envs, name, fresh, worker_index, with_state))
    return found


def make_env(
    env: str | EnvCreator, env_config: Mapping[str, Any] | None = None, wrappers: Sequence[object] = ()
) -> MultiAgentEnv:
    """One env with the dict API, to play by hand; also for natively batched ones."""
    name = _name_of(env, "env")
    check_family_places(env, env_config or {})
    built = _build(resolve_env(env), name, EnvContext(env_config))
    return wrap(built, read_wrappers(wrappers), name)


def _name_of(env: str | EnvCreator, otherwise: str) -> str:
    """What messages call the env; not every callable has a name of its own."""
    if isinstance(env, str):
        return env
    return str(getattr(env, "__name__", otherwise))


def _native(creator: EnvCreator) -> Callable[..., BatchedEnv] | None:
    """The class of a natively batched env, which takes the number of copies first; None for creators of dict envs."""
    if isinstance(creator, type) and issubclass(creator, BatchedEnv):
        return creator
    return None


def _build(creator: EnvCreator, name: str, context: EnvContext) -> Any:
    """One env as its creator gives it; of a natively batched env a single copy."""
    native = _native(creator)
    if native is not None:
        return _guard(name, lambda: SingleLane(native, context))
    return _guard(name, lambda: call_creator(creator, context, name))


def _callable(path: str) -> EnvCreator:
    found = load_object(path, ENV)
    if not callable(found):
        raise ConfigError(f"env {path!r} is a {type(found).__name__}; expected a class or a function.")
    return found


def _guard(name: object, build: Callable[[], Any]) -> Any:
    try:
        return build()
    except UserError:
        raise
    except ValidationError as error:  # before TypeError: pydantic's tells which key is wrong
        raise explain(error, f"env {name!r}: env_config", _keys_of(error)) from None
    except TypeError as error:  # keys that the creator does not take
        raise ConfigError(f"env {name!r} could not be built: TypeError: {error}. Check env_config.") from error
    except BaseException as error:
        let_through(error)
        raise EnvError(
            f"env {name!r} could not be built: {type(error).__name__}: {error}{line_of_code(error)}. Check env_config and "
            "what builds the env."
        ) from error


def _keys_of(error: ValidationError) -> list[str]:
    """Keys of the config class that complained."""
    for config in _below(Config):
        if config.__name__ == error.title:
            return list(config.model_fields)
    return []


def _below(config: type[Config]) -> Iterator[type[Config]]:
    """All classes that inherit from a config class, at any distance."""
    for child in config.__subclasses__():
        yield child
        yield from _below(child)
