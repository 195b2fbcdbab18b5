"""The user's own parts of a policy: models, preprocessors, action distributions. Each is a small class and a name.

``marl.register_model("mine", MyModel)`` and ``model: {custom_model: mine}``; ``package.module:MyModel`` needs no
registration. Ray workers and checkpoints find them by the same name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from marl.data.task import AgentType, AnySpace
from marl.errors import ConfigError, UnknownNameError, UserError, did_you_mean, let_through
from marl.policies.config import ModelConfig
from marl.policies.distributions import Distribution
from marl.registry import Registry, load_object
from marl.trust import Sort

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
        """``[N, obs_width]``, flat and of the type that the env gave, to floats ``[N, size]``."""


class Shelf(Generic[T]):
    """Registered classes of one sort, for one key."""

    def __init__(self, key: str, base: type[Any], register_by: str, takes: Sequence[str]) -> None:
        self.key, self.base, self.register_by, self.takes = key, base, register_by, tuple(takes)
        self.classes: Registry[type[T]] = Registry(key)
        self.sort = Sort(key, (base,), rooms=("marl.policies",))

    def register(self, name: str, found: object) -> None:
        self.classes.put(name, self._checked(found, name))

    def find(self, name: str) -> type[T]:
        """The class behind a registered name or ``package.module:Class``."""
        if ":" in name:
            return self._checked(load_object(name, self.sort), name)
        if name not in self.classes:
            known = sorted(self.classes)
            raise UnknownNameError(
                f"unknown {self.key} {name!r}. Registered: {', '.join(known) or 'none'}.{did_you_mean(name, known)} Register "
                f"it with marl.{self.register_by}(name, class), in a module under imports where a run is resumed or loaded, "
                "or name it package.module:Class."
            )
        return self.classes[name]

    def make(self, name: str, *arguments: Any) -> T:
        """An object of the class."""
        found = self.find(name)
        try:
            return found(*arguments)
        except UserError:
            raise
        except BaseException as error:
            let_through(error)
            raise ConfigError(
                f"{self.key} {name!r}: {found.__name__}({', '.join(self.takes)}) could not be built: {type(error).__name__}: "
                f"{error}"
            ) from error

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
            if name in shelf.classes:  # the others are named package.module:Class, which every process finds by itself
                found.setdefault(shelf.key, {})[name] = shelf.find(name)
    return found


def register_classes(classes: Classes) -> None:
    """The same in another process."""
    for shelf in (MODELS, PREPROCESSORS, DISTRIBUTIONS):
        for name, found in classes.get(shelf.key, {}).items():
            shelf.register(name, found)


MODELS: Shelf[Model] = Shelf("custom_model", Model, "register_model", ("inputs", "outputs", "config"))
PREPROCESSORS: Shelf[Preprocessor] = Shelf(
    "custom_preprocessor", Preprocessor, "register_preprocessor", ("space", "config")
)
DISTRIBUTIONS: Shelf[Distribution] = Shelf("custom_action_dist", Distribution, "register_action_dist", ("space",))


def check_model(model: Model, inputs: int, outputs: int) -> None:
    """Two rows of zeros must go through it."""
    name, given = type(model).__name__, (torch.zeros(2, inputs), torch.zeros(2, model.carry_size))
    wanted = ((2, outputs), (2, model.carry_size))
    model.eval()  # statistics of a user's layers do not learn from zeros
    try:
        with torch.no_grad():
            answer = model(*given)
            if not isinstance(answer, tuple) or len(answer) != 2:
                raise TypeError(f"it gave a {type(answer).__name__}, not a pair")
            out, carry = answer
        shapes = tuple(out.shape), tuple(carry.shape)
    except BaseException as error:
        let_through(error)
        raise ConfigError(
            f"custom model {name} failed on two rows of zeros: {type(error).__name__}: {error}. forward(features "
            f"{[2, inputs]}, carry {[2, model.carry_size]}) must give outputs {[2, outputs]} and the new carry."
        ) from error
    finally:
        model.train()
    if shapes != wanted:
        raise ConfigError(
            f"custom model {name} gives outputs {list(shapes[0])} and a carry {list(shapes[1])} for two rows; expected "
            f"{list(wanted[0])} and {list(wanted[1])}. Its last layer needs `outputs` units."
        )


def check_preprocessor(preprocessor: Preprocessor, kind: AgentType) -> None:
    """The same for observations."""
    name, size = type(preprocessor).__name__, getattr(preprocessor, "size", None)
    if not isinstance(size, int) or size < 1:
        raise ConfigError(
            f"custom preprocessor {name} has size {size!r}; expected the width of what it gives, 1 or more."
        )
    rows = torch.from_numpy(np.zeros((2, kind.obs_width), kind.obs_dtype))
    try:
        with torch.no_grad():
            shape = tuple(preprocessor(rows).shape)
    except BaseException as error:
        let_through(error)
        raise ConfigError(
            f"custom preprocessor {name} failed on two observations of zeros {[2, kind.obs_width]}: {type(error).__name__}: "
            f"{error}"
        ) from error
    if shape != (2, size):
        raise ConfigError(
            f"custom preprocessor {name} gives {list(shape)} for two observations, but its size is {size}. Make them agree."
        )


def custom_preprocessor(kind: AgentType, model: ModelConfig) -> Preprocessor | None:
    """What the scenario puts before the network; None: observations become features as usual."""
    if model.custom_preprocessor is None:
        return None
    made = PREPROCESSORS.make(model.custom_preprocessor, kind.observation_space, model.custom_preprocessor_config)
    check_preprocessor(made, kind)
    return made


def custom_model(model: ModelConfig, inputs: int, outputs: int, generator: torch.Generator) -> Model:
    """The network that the scenario names, with first weights that follow from the generator's seed."""
    assert model.custom_model is not None
    with torch.random.fork_rng(devices=[]):  # the user's layers draw from torch's own generator
        torch.manual_seed(generator.initial_seed())
        made = MODELS.make(model.custom_model, inputs, outputs, model.custom_model_config)
        check_model(made, inputs, outputs)
    return made


def register_model(name: str, model: type[Model]) -> None:
    """Let ``model: {custom_model: name}`` find this class."""
    MODELS.register(name, model)


def register_preprocessor(name: str, preprocessor: type[Preprocessor]) -> None:
    """Let ``model: {custom_preprocessor: name}`` find this class."""
    PREPROCESSORS.register(name, preprocessor)


def register_action_dist(name: str, distribution: type[Distribution]) -> None:
    """Let ``model: {custom_action_dist: name}`` find this class; it is called with the action space."""
    DISTRIBUTIONS.register(name, distribution)
