"""What learners with a replay share: when they update, what they remember, and slow copies of their networks.

    learn(batch):   remember the round's decisions
                    for every update that its env steps have paid for:   rows = sample(replay);   _train(rows)

``OffPolicyLearner`` is this loop (dqn, vdn, qmix, ddpg, td3, maddpg, sac). ``ActorCriticLearner`` adds what ddpg, td3,
maddpg and sac have in common: each policy is an ``ActorCritic`` with critics, targets, replay and counters of its own, and
they meet in joint views. A class derived from one of them writes ``_train``, one update, and finds the rest here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from marl.algos.config import ReplayConfig, scheduled
from marl.algos.custom_loss import build_losses, with_custom
from marl.algos.joint_view import JointActionView, VisibleAgents, joint_rows, team_rewards
from marl.algos.learner import Learner, LearnerSpec, Metrics, mean_metrics
from marl.algos.optimiser import FlatOptimiser
from marl.algos.transitions import Transitions
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.replay import Replay
from marl.data.task import PolicyID
from marl.errors import TrainingError
from marl.policies.policy import Policy

Numbers: TypeAlias = dict[str, Tensor]
Report: TypeAlias = dict[str, Numbers]
"""What one update tells, by the network that moved: one that sat the update out is not there."""


class Network(Protocol):
    """What has the two verbs of ``policies/mlp.py``; called, it is ordinary autograd."""

    @property
    def __call__(self) -> Callable[..., Any]: ...

    @property
    def run(self) -> Callable[..., tuple[Tensor, Any]]:
        """Outputs without gradient, and the tape that ``pull`` needs."""

    @property
    def pull(self) -> Callable[..., object]:
        """``pull(tape, slopes)`` adds d loss / d parameter to the gradients; ``slopes`` are d loss / d outputs."""


@dataclass(frozen=True)
class ActorLoss:
    """What an actor's outputs cost, and d loss / d outputs. Derived classes may tell more."""

    loss: Tensor
    slopes: Tensor


class UpdateRatio:
    """So many updates per env step. ``debt`` is the part of an update that env steps have paid for and that has not been
    made yet."""

    def __init__(self, config: ReplayConfig) -> None:
        self.config = config
        self.debt = 0.0

    def due(self, env_steps: int, timesteps: int, rows: int) -> int:
        """Updates to make now, after ``env_steps`` more of ``timesteps`` in all, with so many rows in the replay."""
        if timesteps < self.config.learning_starts or not rows:
            return 0
        # Steps before learning_starts pay for nothing: else the first round after it would make all their updates at once.
        self.debt += self.config.updates_per_step * env_steps
        due = int(self.debt)
        self.debt -= due
        return due


def in_turns(due: Mapping[PolicyID, int]) -> Iterator[PolicyID]:
    """Names, each as often as it is due: one update for everybody, then the next, so that nobody runs ahead."""
    for turn in range(max(due.values(), default=0)):
        for name, updates in due.items():
            if turn < updates:
                yield name


class TargetNetwork:
    """Moves a slow copy behind the module that it was made from; both are taken apart once.

    ``copy += tau * (module - copy)`` for parameters; buffers (filters, exploration) are copied. With the ``optimiser`` of all
    of the module's parameters they lie in one flat tensor; the copy's are laid out like them, and one call moves all.
    """

    def __init__(self, copy: nn.Module, module: nn.Module, optimiser: FlatOptimiser | None = None) -> None:
        self.mine: list[Tensor] = list(copy.parameters())
        self.theirs: list[Tensor] = list(module.parameters())
        kept, followed = (
            dict(copy.named_buffers()),
            module.state_dict(keep_vars=True),
        )  # tables that never change are not in it
        self.buffers = [(kept[name], tensor) for name, tensor in followed.items() if name in kept]
        self.optimiser: FlatOptimiser | None = None
        # A parameter that is not learned (a custom model may have some) is not among the optimiser's numbers.
        if optimiser is not None and all(parameter.requires_grad for parameter in self.theirs):
            self.optimiser, self.flat = optimiser, lay_flat(self.mine)

    @torch.no_grad()
    def move(self, tau: float) -> None:
        # The networks are small, so the number of calls is what costs.
        if self.optimiser is not None:
            self.flat.lerp_(self.optimiser.flat, tau)
        else:
            torch._foreach_lerp_(self.mine, self.theirs, tau)
        for mine, theirs in self.buffers:
            mine.copy_(theirs)


def lay_flat(parameters: Sequence[Tensor]) -> Tensor:
    """One tensor of all numbers, of which the parameters become views."""
    flat = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
    parts = torch.split(flat, [parameter.numel() for parameter in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.data = part.view_as(parameter)
    return flat


class OffPolicyLearner(Learner):
    """Learns from a replay. Derived classes say how a round is remembered and what its updates are."""

    shares_minibatches = True

    def learn(self, batch: MultiAgentBatch) -> Metrics:
        if not self.trained:
            return {}
        self._count_steps(batch.env_steps)
        self.clock.start()
        self.remember(batch)
        self.clock.lap("load")
        metrics = self.train(batch.env_steps)
        self._observe(batch)  # after the updates: all of them saw the same statistics
        self._anneal()
        return metrics

    @abstractmethod
    def remember(self, batch: MultiAgentBatch) -> None:
        """Put a round's decisions into the replay."""

    @abstractmethod
    def train(self, env_steps: int) -> Metrics:
        """Make the updates that so many more env steps have paid for; empty when none was due."""

    def descend(
        self, loss: Tensor, optimiser: FlatOptimiser, lr: float, grad_clip: float | None,
        inputs: Sequence[Tensor] | None = None,
    ) -> Tensor:  # fmt: skip
        """One step down the gradient of a loss, for all parameters or for ``inputs`` alone; returns the gradient's norm."""
        optimiser.zero()
        loss.backward(inputs=inputs)  # type: ignore[no-untyped-call]
        return optimiser.step(grad_clip, lr, self.learner_group)

    def descend_by(
        self, network: Network, tape: Any, slopes: Tensor, optimiser: FlatOptimiser, lr: float, grad_clip: float | None
    ) -> Tensor:
        """The same without autograd: by the ``tape`` of the network's ``run`` and d loss / d its outputs."""
        optimiser.zero()
        network.pull(tape, slopes)
        return optimiser.step(grad_clip, lr, self.learner_group)

    def count_update(self, rows: int) -> None:
        """An update has learned from so many decisions of single agents."""
        self.counters["num_updates"] += 1
        self.counters["num_steps_trained"] += rows
        self.counters["num_agent_steps_trained"] += rows


# -- actors with critics of actions ------------------------------------------------------------------------------------


class ActorCritic(ABC):
    """One policy and all that trains it: a replay, a joint view for its critics, its custom loss, how many updates are due.

    Derived classes add critics, slow copies (``targets``), and by network's name ``optimisers`` and step sizes of their own.
    """

    actor: Policy
    config: ReplayConfig
    optimisers: dict[str, FlatOptimiser]
    targets: tuple[TargetNetwork, ...]
    lrs: Mapping[str, float | None]  # null: lr and its schedule

    def __init__(
        self, name: PolicyID, spec: LearnerSpec, *, sees: Literal["own", "group", "all"], share_reward: bool,
        agent_id: bool,
    ) -> None:  # fmt: skip
        actor, config = spec.policies[name], spec.configs[name]
        assert isinstance(config, ReplayConfig)
        self.name, self.actor, self.config, self.share_reward = name, actor, config, share_reward
        visible = VisibleAgents(spec.task, sees, actor.kind, spec.seats[name])
        self.view = JointActionView(visible, agent_id=agent_id).to(actor.device)
        self.actor_parameters = list(actor.parameters())  # walked once: every update asks for them
        self.custom_loss = build_losses({name: actor}, {name: config}).get(name)
        alpha = 0.0  # all rows are drawn equally often
        if config.prioritized_replay:
            alpha = config.prioritized_replay_alpha
        self.replay = Replay(config.buffer_size, alpha)
        self.update_ratio = UpdateRatio(config)

    def rows(self, batch: MultiAgentBatch) -> SampleBatch:
        """The policy's decisions with the joint view around each."""
        rewards = None  # each agent's own
        if self.share_reward:
            rewards = team_rewards(batch)
        return joint_rows(batch, self.name, self.view.visible, self.config.gamma, rewards)

    def remember(self, batch: MultiAgentBatch) -> None:
        """Put the policy's decisions into the replay."""
        rows = self.rows(batch)
        self.replay.add(rows, rows["stream"])

    def updates_due(self, env_steps: int, timesteps: int) -> int:
        return self.update_ratio.due(env_steps, timesteps, len(self.replay))

    def sample(self, rng: np.random.Generator) -> SampleBatch:
        """Rows for one update."""
        config = self.config
        return self.replay.sample(
            config.train_batch_size, rng, config.n_step, config.gamma, config.prioritized_replay_beta
        )

    def transitions(self, rows: SampleBatch) -> Transitions:
        """The same rows as tensors."""
        return self.view.transitions(rows)

    def step_sizes(self, timesteps: int) -> dict[str, float]:
        """Of each network after so many env steps."""
        common = scheduled(self.config.lr_schedule, self.config.lr, timesteps)
        sizes: dict[str, float] = {}
        for network, lr in self.lrs.items():
            if lr is None:
                lr = common
            sizes[network] = lr
        return sizes

    def move_targets(self, tau: float) -> None:
        """The slow copies go the share ``tau`` of their way."""
        for target in self.targets:
            target.move(tau)

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Everything but the policy's own weights and the replay."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


AC = TypeVar("AC", bound=ActorCritic)
Loss = TypeVar("Loss", bound=ActorLoss)


class ActorCriticLearner(OffPolicyLearner, Generic[AC]):
    """One ``ActorCritic`` per policy; they take turns, one update each."""

    def __init__(self, spec: LearnerSpec, actor_critics: Mapping[PolicyID, AC]) -> None:
        super().__init__(spec.policies, spec.seed)
        self.actor_critics = dict(actor_critics)

    def remember(self, batch: MultiAgentBatch) -> None:
        for name in sorted(self.trained):
            self.actor_critics[name].remember(batch)

    def train(self, env_steps: int) -> Metrics:
        due: dict[PolicyID, int] = {}
        reports: dict[PolicyID, list[Report]] = {}
        for name in sorted(self.trained):
            due[name] = self.actor_critics[name].updates_due(env_steps, self.timesteps[name])
            reports[name] = []
        for name in in_turns(due):
            reports[name].append(self._train(self.actor_critics[name]))
        return {name: self.summary(name, found) for name, found in reports.items() if found}

    @abstractmethod
    def _train(self, ac: AC) -> Report:
        """One update of a policy and its critics."""

    def climb(
        self, ac: AC, network: Network, inputs: Sequence[Tensor], loss_of: Callable[[Tensor], Loss], t: Transitions,
        weight: float,
    ) -> tuple[Loss, Tensor]:  # fmt: skip
        """One step of the actor ``network`` by the ``loss_of`` its outputs; returns this loss, without what the user adds, and
        the gradient's norm. ``weight`` is what these rows count in the learner group."""
        optimiser, lr, clip = (
            ac.optimisers["actor"],
            ac.step_sizes(self.timesteps[ac.name])["actor"],
            ac.config.grad_clip,
        )
        if ac.custom_loss is None:
            outputs, tape = network.run(*inputs)
            found = loss_of(outputs)
            return found, self.descend_by(network, tape, found.slopes * weight, optimiser, lr, clip)
        outputs = network(*inputs)  # by autograd: the user's class may do with the loss what it likes
        found = loss_of(outputs.detach())
        loss = with_custom(ac.custom_loss, with_slopes(found, outputs), ac.view.columns_of_loss(t))
        self.check_loss(ac, "actor", loss)
        return found, self.descend(loss * weight, optimiser, lr, clip, inputs=ac.actor_parameters)

    def check_loss(self, ac: AC, part: str, loss: Tensor) -> None:
        """Nothing is learned from a loss that is no number: its gradient is none either, or it has none."""
        if not math.isfinite(loss.item()):
            raise TrainingError(
                f"the {part} loss of policy {ac.name!r} became {loss.item()} after "
                f"{self.counters['num_updates']} updates. Usual remedies: a smaller lr, a grad_clip, and a look at the "
                "env's rewards and observations."
            )

    def summary(self, name: PolicyID, reports: Sequence[Report]) -> dict[str, float]:
        """Means over the updates in which a network moved (TD3's actor sits every other one out)."""
        by_network: dict[str, list[Numbers]] = {}
        for report in reports:
            for network, numbers in report.items():
                by_network.setdefault(network, []).append(numbers)
        found: dict[str, float] = {}
        for rows in by_network.values():
            found |= mean_metrics(self.learner_group.sum_metrics(rows))
        custom = self.actor_critics[name].custom_loss
        if custom is not None and "actor" in by_network:  # before the actor's first step the loss has not been asked
            found |= custom.stats()
        return found

    def count_errors(self, ac: AC, rows: SampleBatch, errors: Tensor) -> None:
        """The critics' errors decide how likely their rows are drawn again, and are listed where that was asked for."""
        if ac.replay.priorities is None and not ac.config.full_td_error:
            return
        whole = self.learner_group.gather(errors, len(rows)).cpu().numpy()
        ac.replay.update_priorities(rows["place"], whole)
        if ac.config.full_td_error:
            self.td_errors[ac.name] = whole

    # -- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        states = {name: ac.state_dict() for name, ac in self.actor_critics.items()}
        return {**self._common_state(), "pupils": states}  # a name on disk

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._load_common_state(state)
        for name, saved in state["pupils"].items():
            self.actor_critics[name].load_state_dict(saved)

    def replay_state(self) -> dict[str, Any]:
        return {name: ac.replay.state_dict() for name, ac in self.actor_critics.items()}

    def load_replay_state(self, state: Mapping[str, Any]) -> None:
        for name, ac in self.actor_critics.items():
            ac.replay.load_state_dict(state[name])


def with_slopes(found: ActorLoss, outputs: Tensor) -> Tensor:
    """A loss whose slopes were worked out by hand, as autograd would know it: its value, and its gradient by ``outputs``."""
    return found.loss + ((outputs - outputs.detach()) * found.slopes).sum()
