"""The user's own parts of a policy: models, preprocessors, action distributions. Each is a small class and a name.

``marl.register_model("mine", MyModel)`` and ``model: {custom_model: mine}``; ``package.module:MyModel`` needs no
registration. Ray workers and checkpoints find them by the same name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from torch import Tensor, nn

from marl.data.task import AnySpace
from marl.errors import ConfigError
from marl.policies.config import ModelConfig
from marl.policies.distributions import Distribution
from marl.registry import Registry, load_object

T = TypeVar("T")


class Model(nn.Module, ABC):
    """From features to outputs. The constructor is called as ``MyModel(inputs, outputs, config)``: the width of the
    features, the number of outputs (logits, action values, or means and deviations; one more for the value with
    ``vf_share_layers``) and ``custom_model_config``. It should draw its first weights with ``torch``'s functions only:
    the generator is seeded for it.

    A recurrent model sets ``carry_size`` to the numbers that it remembers per agent between two decisions; a new life
    begins with zeros.
    """

    carry_size: int = 0

    def __init__(self, inputs: int, outputs: int, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.inputs, self.outputs, self.config = inputs, outputs, dict(config)

    @abstractmethod
    def forward(self, features: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        """``[N, inputs]`` and ``[N, carry_size]`` to ``[N, outputs]`` and the new carry."""


class Preprocessor(nn.Module, ABC):
    """From stored observations to features: ``MyPreprocessor(space, config)``, the observation space and
    ``custom_preprocessor_config``. ``size`` is the width of what it gives. It runs alike while acting and while learning."""

    size: int

    def __init__(self, space: AnySpace, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.space, self.config = space, dict(config)

    @abstractmethod
    def forward(self, obs: Tensor) -> Tensor:
        """``[N, obs_width]``, flat and of the type that the world gave, to floats ``[N, size]``."""


class Shelf(Generic[T]):
    """Registered classes of one sort, for one key."""

    def __init__(self, key: str, base: type[Any]) -> None:
        self.key, self.base = key, base
        self.classes: Registry[type[T]] = Registry(key)

    def register(self, name: str, found: object) -> None:
        self.classes.register(name, self._checked(found, name))

    def find(self, name: str) -> type[T]:
        """The class behind a registered name or ``package.module:Class``."""
        return self._checked(load_object(name, self.key), name) if ":" in name else self.classes[name]

    def _checked(self, found: object, name: str) -> type[T]:
        if isinstance(found, type) and issubclass(found, self.base):
            return found
        raise ConfigError(f"{self.key} {name!r} is {found!r}; expected a class derived from marl.{self.base.__name__}.")


Classes = dict[str, dict[str, type[Any]]]
"""Key to registered names to classes: what travels to workers of other processes."""


def classes_used(models: Iterable[ModelConfig]) -> Classes:
    """The registered classes that these models name."""
    found: Classes = {}
    for model in models:
        for shelf in (MODELS, PREPROCESSORS, DISTRIBUTIONS):
            name = getattr(model, shelf.key)
            if name is not None and name in shelf.classes:
                found.setdefault(shelf.key, {})[name] = shelf.find(name)
    return found


def register_classes(classes: Classes) -> None:
    """The same in another process."""
    for shelf in (MODELS, PREPROCESSORS, DISTRIBUTIONS):
        for name, found in classes.get(shelf.key, {}).items():
            shelf.register(name, found)


MODELS: Shelf[Model] = Shelf("custom_model", Model)
PREPROCESSORS: Shelf[Preprocessor] = Shelf("custom_preprocessor", Preprocessor)
DISTRIBUTIONS: Shelf[Distribution] = Shelf("custom_action_dist", Distribution)


def register_model(name: str, model: type[Model]) -> None:
    """Let ``model: {custom_model: name}`` find this class."""
    MODELS.register(name, model)


def register_preprocessor(name: str, preprocessor: type[Preprocessor]) -> None:
    """Let ``model: {custom_preprocessor: name}`` find this class."""
    PREPROCESSORS.register(name, preprocessor)


def register_action_dist(name: str, distribution: type[Distribution]) -> None:
    """Let ``model: {custom_action_dist: name}`` find this class; it is called with the action space."""
    DISTRIBUTIONS.register(name, distribution)
