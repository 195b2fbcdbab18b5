"""An algorithm of the user's own: a learner class that takes the keys of a built-in one, or keys of its own.

    class Cautious(CentralCriticLearner):
        like = "ppo"            # takes the keys, the policies and the exploration of this algorithm

``marl.register_algorithm("cautious", Cautious)`` and ``algo: cautious``; ``algo: package.module:Cautious`` (or ``--run``)
needs no registration. ``defaults`` are other defaults for its keys, ``config`` is a class derived from that of ``like`` with
more keys.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from marl.algos.config import LearnerConfig
from marl.algos.family import ALGOS, Preset
from marl.algos.learner import Learner
from marl.errors import ConfigError


def register_algorithm(name: str, algorithm: type[Learner] | Preset) -> None:
    """Let ``algo: name`` find this learner class (or preset)."""
    import marl.algos.presets  # noqa: F401  (the built-in ones, which may not have been asked for yet)

    if ":" in name or not name.strip():
        raise ConfigError(
            f"an algorithm cannot be called {name!r}: expected a word; package.module:Class needs no name."
        )
    if name in ALGOS and isinstance(ALGOS[name].family.learner, str):  # a built-in one
        raise ConfigError(f"there is an algorithm {name!r} already. Choose another name.")
    ALGOS.put(name, preset_of(algorithm, name))


def preset_of(found: object, name: str) -> Preset:
    """The preset of a learner class; a preset is one already."""
    if isinstance(found, Preset):
        return replace(found, name=name)
    if not (isinstance(found, type) and issubclass(found, Learner)):
        raise ConfigError(
            f"algorithm {name!r} is {found!r}; expected a class derived from marl.Learner, or a marl.Preset."
        )
    like = getattr(found, "like", None)
    if not isinstance(like, str):
        raise ConfigError(
            f"algorithm {name!r}: the class {found.__name__} has no attribute `like`. Give it the name of the algorithm whose "
            'keys and policies it takes, for instance like = "ppo".'
        )
    model = ALGOS[like]
    config = _config(found, model, name)
    defaults: dict[str, Any] = {**model.defaults, **getattr(found, "defaults", {})}
    unknown = [key for key in defaults if key not in config.model_fields]
    if unknown:
        raise ConfigError(f"algorithm {name!r}: defaults has {unknown[0]!r}, which is no key of {config.__name__}.")
    family = replace(model.family, config=config, learner=found)
    summary = (found.__doc__ or f"{found.__name__}, with the keys of {like}.").strip().splitlines()[0]
    return Preset(name, family, defaults, summary, model.fixed, model.asynchronous, model.exploration)


def _config(found: type[Learner], model: Preset, name: str) -> type[LearnerConfig]:
    config: Any = getattr(found, "config", model.family.config)
    if isinstance(config, type) and issubclass(config, model.family.config):
        return config
    raise ConfigError(
        f"algorithm {name!r}: config is {config!r}; expected a class derived from {model.family.config.__name__}, that of "
        f"{model.name}."
    )
