"""The user's own addition to a loss, and statistics of it: a small class and a name.

``marl.register_loss("imitate", Imitate)`` and ``algo: {custom_loss: imitate}``; ``package.module:Imitate`` needs no
registration.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from torch import Tensor, nn

from marl.algos.config import LearnerConfig
from marl.errors import ConfigError, UserError, did_you_mean, let_through
from marl.policies.custom import Shelf
from marl.policies.mlp import gradient_of
from marl.policies.policy import Policy

T = TypeVar("T")


class Loss(ABC):
    """Built once per policy as ``MyLoss(policy, config)`` with ``custom_loss_config``; called in every gradient step."""

    def __init__(self, policy: Policy, config: Mapping[str, Any]) -> None:
        self.policy, self.config = policy, dict(config)

    @abstractmethod
    def __call__(self, loss: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        """The loss to minimise instead of ``loss``; ``batch`` are the columns of the minibatch, one row per decision.

        ``obs``, ``actions``, ``legal`` and ``agent_index`` are always there, beside what the algorithm learns from:
        advantages, returns, or outcomes (``new_obs``, ``rewards``, ``terminateds``). Where a mixer values teams (vdn,
        qmix), a row is one decision of a team and its members' columns are per kind of agent: ``obs.0``
        ``[N, members, width]``, ``actions.0``, ...; ``present`` ``[N, members]`` tells who decided.
        """

    def stats(self) -> dict[str, float]:
        """More numbers for the policy's learner stats, after a training batch."""
        return {}


LOSSES: Shelf[Loss] = Shelf("custom_loss", Loss, "register_loss", ("policy", "config"))


def register_loss(name: str, loss: type[Loss]) -> None:
    """Let ``algo: {custom_loss: name}`` find this class."""
    LOSSES.register(name, loss)


class NoSuchColumnError(KeyError):
    """A custom loss asked for a column that its batch does not have."""


class LossColumns(dict[str, Tensor]):
    """Columns that know when one was asked for in vain, so that no other ``KeyError`` is mistaken for it."""

    def __missing__(self, name: str) -> Tensor:
        raise NoSuchColumnError(name)


def with_custom(custom: Loss, loss: Tensor, columns: Mapping[str, Tensor]) -> Tensor:
    """What the user's class makes of the loss."""
    name = type(custom).__name__
    try:
        made = custom(loss, LossColumns(columns))
    except NoSuchColumnError as error:
        raise ConfigError(
            f"custom loss {name} asked for the column {error.args[0]!r}, which its batch does not have. "
            f"There are {', '.join(sorted(columns))}.{did_you_mean(error.args[0], columns)}"
        ) from error
    except UserError:  # says already what to do
        raise
    except BaseException as error:
        let_through(error)
        raise ConfigError(f"custom loss {name} failed: {type(error).__name__}: {error}") from error
    if not isinstance(made, Tensor) or made.numel() != 1:
        shape = list(made.shape) if isinstance(made, Tensor) else made
        raise ConfigError(f"custom loss {name} gave {shape}; expected one number as a tensor: loss + something.mean().")
    return made


def slopes_by(parameters: Sequence[nn.Parameter], compute: Callable[[], T]) -> tuple[T, list[Tensor]]:
    """What ``compute`` returns, and what it adds to the gradients of the parameters, which are left as they were."""
    gradients = [gradient_of(parameter) for parameter in parameters]
    before = [gradient.clone() for gradient in gradients]
    for gradient in gradients:
        gradient.zero_()
    result = compute()
    found = [gradient.clone() for gradient in gradients]
    for gradient, kept in zip(gradients, before, strict=True):
        gradient.copy_(kept)
    return result, found


def with_slopes(value: Tensor, parameters: Sequence[nn.Parameter], slopes: Sequence[Tensor]) -> Tensor:
    """A loss of this value with these slopes by the parameters, whichever way they were found: it may be multiplied, added to
    and differentiated like any other."""
    for parameter, slope in zip(parameters, slopes, strict=True):
        value = value + ((parameter - parameter.detach()) * slope).sum()  # the difference is 0, its gradient 1
    return value


def build_losses(policies: Mapping[str, Policy], configs: Mapping[str, LearnerConfig]) -> dict[str, Loss]:
    """The custom losses of those policies that have one."""
    losses: dict[str, Loss] = {}
    for name, policy in policies.items():
        config = configs[name]
        if config.custom_loss:
            losses[name] = LOSSES.make(config.custom_loss, policy, config.custom_loss_config)
    return losses
