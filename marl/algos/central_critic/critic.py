"""Value critics: a network over what ``critic_sees`` shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from marl.algos.central_critic.next_actions import actions_of_others
from marl.algos.central_critic.train_batch import to_tensors
from marl.algos.joint_view import JointFeatures, columns_by_kind, seats_in_order
from marl.algos.learner import load_numpy
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.task import Array, Bools, Floats, Ints, Task
from marl.errors import ConfigError
from marl.policies.config import ModelConfig
from marl.policies.mlp import MLP, Tape
from marl.policies.networks import Body, Features, build_mlp, seeded
from marl.policies.policy import Policy
from marl.policies.stochastic import StochasticPolicy
from marl.policies.value_scale import ValueScale

WITH_STATE = ("state", "agent_state")
LARGEST_INPUT = 2**24  # numbers that a network is shown at once while values are computed: 64 MB
Sees = Literal["own", "group", "all", "state", "agent_state"]


class CriticView(nn.Module):
    """What a critic of one policy is shown besides the agent's own observation, for decisions ``(t, e, a)``: the view
    before the step, or after their outcome. Width 0 for ``own``.

    Joint views end with the one-hot seat of the agent that the value is for. ``group`` shows each agent its own
    group; groups of different widths are filled up with zeros. ``agent_state`` is the env's state followed by the agent's own
    observation; of an agent that is gone both are zeros and the seat alone is left (death masking, Yu et al., 2022).

    With ``actions`` joint views also show what the others do in the row; zeros for the agent itself and for those who do not
    decide. What they do after an outcome is to be in the batch (``next_actions``).
    """

    def __init__(self, task: Task, sees: Sees, policy: Policy, *, actions: bool = False) -> None:
        super().__init__()
        self.task, self.sees, self.kind, self.actions = task, sees, policy.kind, actions
        if sees in WITH_STATE and not task.state_size:
            raise ConfigError(
                f"critic_sees: {sees} needs an env with a state(), and this one has none. Use critic_sees: all, or group."
            )
        self.k = task.kinds.index(policy.kind)
        self.views = nn.ModuleList()
        self.seats: list[list[int]] = []
        if sees in ("group", "all"):
            self.seats = _seen_together(task, sees, policy)
            self.views.extend(JointFeatures(task, seats, actions=actions) for seats in self.seats)
        self.own: Features | None = Features(self.kind, agent_id=False) if sees == "agent_state" else None
        self.size = self._size()

    def _size(self) -> int:
        if self.sees == "own":
            return 0
        if self.sees in WITH_STATE:
            return self.task.state_size + (self.own.size if self.own is not None else 0) + self.kind.size
        return max(int(view.size) for view in self.views) + self.kind.size  # type: ignore[arg-type]

    def forward(self, batch: MultiAgentBatch, t: Ints, e: Ints, a: Ints, after: bool) -> Tensor:
        """``[N, size]``; ``t`` are the rows of the decisions, or of their outcomes where ``after``."""
        if self.sees == "own":
            return torch.zeros(len(t), 0)
        index = torch.from_numpy(a - self.kind.first_seat)
        seat = nn.functional.one_hot(index, self.kind.size).float()
        if self.sees == "state":
            state = (batch.new_state if after else batch.state)[t, e]
            return torch.cat([torch.from_numpy(state), seat], dim=1)
        if self.own is not None:
            return torch.cat([self._state_and_own(self.own, batch, t, e, a, after), seat], dim=1)
        return torch.cat([self._joint(batch, t, e, a, after), seat], dim=1)

    def _state_and_own(
        self, features: Features, batch: MultiAgentBatch, t: Ints, e: Ints, a: Ints, after: bool
    ) -> Tensor:
        column = a - self.kind.first_seat
        if after:
            state, obs, alive = batch.new_state[t, e], batch.new_obs[self.k][t, e, column], batch.new_alive[t, e, a]
        else:
            state, obs, alive = batch.state[t, e], batch.obs[self.k][t, e, column], batch.alive[t, e, a]
        own: Tensor = features(torch.from_numpy(obs), torch.from_numpy(column))
        shown = torch.cat([torch.from_numpy(state), own], dim=1)
        return torch.where(torch.from_numpy(alive)[:, None], shown, 0.0)

    def _joint(self, batch: MultiAgentBatch, t: Ints, e: Ints, a: Ints, after: bool) -> Tensor:
        out = torch.zeros(len(t), self.size - self.kind.size)
        observed, alive = (batch.new_obs, batch.new_alive) if after else (batch.obs, batch.alive)
        for view, seats in zip(self.views, self.seats, strict=True):
            rows = np.flatnonzero(np.isin(a, seats))
            if rows.size:
                at = t[rows], e[rows]
                obs = {k: observed[k][at][:, cols] for k, cols in columns_by_kind(self.task, seats).items()}
                done = None
                if self.actions:
                    done = actions_of_others(self.task, seats, _played(batch, after), *at, a[rows])
                joint: Tensor = view(obs, alive[at][:, seats], done)
                out[torch.from_numpy(rows), : joint.shape[1]] = joint
        return out


def _played(batch: MultiAgentBatch, after: bool) -> tuple[list[Array], Bools]:
    """What everybody does in the rows of a grid or after them, and who decides."""
    if not after:
        return batch.actions, batch.present
    assert batch.next_actions is not None, "a critic that sees actions needs a batch with next actions"
    return batch.next_actions.actions, batch.next_actions.acting


def _seen_together(task: Task, sees: str, policy: Policy) -> list[list[int]]:
    """Seats that a critic sees at once: everybody, or one list per group; agents without a group see themselves."""
    if sees == "all":
        return [list(range(task.num_seats))]
    mine = range(policy.kind.seats.start, policy.kind.seats.stop)
    together: list[list[int]] = []
    grouped: set[int] = set()
    for seats in task.groups.values():
        if set(seats) & set(mine):
            together.append(seats_in_order(task, seats))
            grouped.update(seats)
    for seat in mine:
        if seat not in grouped:
            together.append([seat])
    return together


class Critic(nn.Module):
    """A value per row: of the agent's own observation, or of the joint view. With more ``outputs`` so many."""

    def __init__(
        self, view: CriticView, actor: StochasticPolicy, model: ModelConfig, seed: int, normalize: bool = False,
        outputs: int = 1,
    ) -> None:  # fmt: skip
        super().__init__()
        self.view, self.outputs = view, outputs
        self.value_scale = ValueScale() if normalize and not actor.shares_value else None
        self.joint = view.size > 0
        self.device = actor.device
        # A stream of its own: what the critic sees must not change the actor's first weights.
        generator = seeded(seed, 7)
        self.network: nn.Module
        if self.joint:
            self.network = build_mlp(view.size, outputs, model, generator)
        else:
            shown = bool(actor.features.seats)
            # Without a memory: a recurrent policy's value comes out of the policy's own layers (shares_value).
            self.network = Body(actor.kind, model, outputs, generator, agent_id=shown, memory=False)
        self.network.to(self.device)  # the network alone: views are made of numpy's arrays, where these are
        if self.value_scale is not None:
            self.value_scale.to(self.device)

    def load_saved(self, state: Mapping[str, Array]) -> None:
        """Of a checkpoint; one that was written before values were scaled goes on with values as they were."""
        if self.value_scale is not None:
            state = {"value_scale.sums": np.zeros(3), **state}
        load_numpy(self, state)

    def observe(self, obs: Array, agent_index: Ints) -> None:
        """Running statistics of its own, like the policy's."""
        if isinstance(self.network, Body):
            self.network.observe(obs, agent_index)

    def forward(self, obs: Tensor, agent_index: Tensor, seen: Tensor) -> Tensor:
        """``[N]``, or ``[N, outputs]`` of several, as the network gives them (see ``value_scale``); ``seen`` is what the view
        shows."""
        out: Tensor = self.network(seen) if self.joint else self.network(obs, agent_index)
        return self.values_of(out)

    def values_of(self, out: Tensor) -> Tensor:
        """The network's output as values: a single one per row has no axis of its own."""
        return out.squeeze(-1) if self.outputs == 1 else out

    def by_output(self, by_values: Tensor) -> Tensor:
        """The way back of ``values_of``."""
        return by_values.unsqueeze(-1) if self.outputs == 1 else by_values

    def of_taken(self, values: Tensor, actions: Tensor) -> Tensor:
        """What is learned of the values: here all of them, whatever was done."""
        del actions
        return values

    def by_all(self, by_taken: Tensor, values: Tensor, actions: Tensor) -> Tensor:
        """The way back of ``of_taken``: d loss / d values."""
        del values, actions
        return by_taken

    def run(self, obs: Tensor, agent_index: Tensor, seen: Tensor) -> tuple[Tensor, Tape | Tensor]:
        """As ``forward`` but without gradient, and what ``pull`` needs."""
        network = self.network
        assert isinstance(network, MLP | Body)
        out, tape = network.run(seen) if isinstance(network, MLP) else network.run(obs, agent_index)
        return self.values_of(out), tape

    def pull(self, tape: Tape | Tensor, by_values: Tensor) -> None:
        """Add d loss / d parameter to the gradients, from d loss / d values."""
        network = self.network
        assert isinstance(network, MLP | Body)
        network.pull(tape, self.by_output(by_values))  # type: ignore[arg-type]  # an MLP's tape is its own

    def seen(self, batch: MultiAgentBatch, rows: SampleBatch, part: slice = slice(None), after: bool = False) -> Array:
        """What the view adds to the observations of these decisions, or to what they led to; width 0 for ``own``."""
        if not self.joint:
            return np.zeros((len(rows["row"][part]), 0), np.float32)
        t = rows["row"] + rows["elapsed"] - 1 if after else rows["row"]
        shown: Tensor = self.view(batch, t[part], rows["lane"][part], rows["seat"][part], after)
        return shown.numpy()

    @torch.inference_mode()
    def estimate_values(
        self, actor: StochasticPolicy, batch: MultiAgentBatch, rows: SampleBatch, seen: Array
    ) -> tuple[Floats, Floats]:
        """Values before and after every decision, in slices: a batch of images never stands there as floats at once."""
        if actor.shares_value and actor.carry_size:
            return self._look_ahead(actor, rows)
        values = np.empty(len(rows), np.float32)
        for part in self._slices(actor, len(rows)):
            data = to_tensors(rows, ("obs", "agent_index"), self.device, part)
            shown = torch.from_numpy(seen[part]).to(self.device)
            values[part] = self._value(actor, data["obs"], data["agent_index"], shown)
        # What most decisions led to is what the next one saw: its value is known.
        following = self._seen_again(batch, rows)
        next_values = values[following]
        rest = rows.rows(np.flatnonzero(following < 0))
        found = np.empty(len(rest), np.float32)
        for part in self._slices(actor, len(rest)):
            data = to_tensors(rest, ("new_obs", "agent_index"), self.device, part)
            shown = torch.from_numpy(self.seen(batch, rest, part, after=True)).to(self.device)
            found[part] = self._value(actor, data["new_obs"], data["agent_index"], shown)
        next_values[following < 0] = found
        return values, next_values

    def _value(self, actor: StochasticPolicy, obs: Tensor, index: Tensor, shown: Tensor) -> Floats:
        """In units of rewards."""
        value = actor.value(obs, index) if actor.shares_value else self(obs, index, shown)
        if self.value_scale is not None:
            value = self.value_scale.in_reward_units(value)
        numbers: Floats = value.cpu().numpy()
        return numbers

    def _look_ahead(self, actor: StochasticPolicy, rows: SampleBatch) -> tuple[Floats, Floats]:
        """Of a recurrent policy, whose memory after a decision is not that of any stored row."""
        values, next_values = np.empty(len(rows), np.float32), np.empty(len(rows), np.float32)
        columns = "obs", "new_obs", "agent_index", "actions", "rewards", "carry"
        for part in self._slices(actor, len(rows)):
            data = to_tensors(rows, columns, self.device, part)
            value, next_value = actor.look_ahead(
                data["obs"], data["agent_index"], data["carry"][:, : actor.carry_size], data["actions"], data["rewards"],
                data["new_obs"],
            )  # fmt: skip
            values[part], next_values[part] = value.cpu().numpy(), next_value.cpu().numpy()
        return values, next_values

    def _slices(self, actor: StochasticPolicy, rows: int) -> list[slice]:
        most = max(1, LARGEST_INPUT // max(self.view.size, actor.model.features.size))
        return [slice(start, start + most) for start in range(0, rows, most)]

    def _seen_again(self, batch: MultiAgentBatch, rows: SampleBatch) -> Ints:
        """For each decision the row of the next one of the same agent if it was shown exactly what this one led to; else -1.

        The two views are compared, not assumed to be equal: lives end, agents pause, envs may change between two steps.
        """
        grid = np.full(batch.rewards.shape, -1)
        grid[rows["row"], rows["lane"], rows["seat"]] = np.arange(len(rows))
        after = rows["row"] + rows["elapsed"]
        inside = after < len(grid)
        following = np.where(inside, grid[np.where(inside, after, 0), rows["lane"], rows["seat"]], -1)
        if self.joint:
            unchanged = self._unchanged(batch)
            same = unchanged[after - 1, rows["lane"]]
        else:
            same = (rows["new_obs"] == rows["obs"][following]).all(axis=1)
        return np.where(same, following, -1)

    def _unchanged(self, batch: MultiAgentBatch) -> Bools:
        """Where a row's view after the step is the next row's view before it, ``[T, E]``, in all that critics see."""
        if self.view.actions:
            assert batch.next_actions is not None
            return batch.next_actions.known
        found = np.zeros(batch.alive.shape[:2], bool)  # nothing follows on the last row
        same: Bools = np.ones(found[:-1].shape, bool)
        if self.view.sees in WITH_STATE:
            same &= (batch.new_state[:-1] == batch.state[1:]).all(axis=2)
        if self.view.sees == "state":
            found[:-1] = same
            return found
        same &= (batch.new_alive[:-1] == batch.alive[1:]).all(axis=2)
        for obs, new_obs in zip(batch.obs, batch.new_obs, strict=True):
            same &= (new_obs[:-1] == obs[1:]).all(axis=(2, 3))
        found[:-1] = same
        return found


def in_network_units(actor: StochasticPolicy, critic: Critic, data: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Values and targets of a training batch as ``value_scale`` sees them, after it has seen them."""
    scale = actor.value_scale if actor.shares_value else critic.value_scale
    assert scale is not None
    layers = last_layers(actor.model if actor.shares_value else critic.network)
    scale.observe(data["value_targets"], layers, critic.outputs)
    return {column: scale.normalized(data[column]) for column in ("values", "value_targets")}


def last_layers(network: nn.Module) -> MLP | None:
    """The layers whose last one gives the outputs; None where they are the user's."""
    if isinstance(network, Body):
        network = network.network if network.head is None else network.head
    return network if isinstance(network, MLP) else None


@torch.inference_mode()
def current_logp(actor: StochasticPolicy, rows: SampleBatch) -> Floats:
    """Log probabilities of what was done under the policy as it is now; older weights may have acted."""
    found = np.empty(len(rows), np.float32)
    most = max(1, LARGEST_INPUT // actor.features.size)
    for start in range(0, len(rows), most):
        part = slice(start, start + most)
        data = to_tensors(rows, ("obs", "agent_index", "legal", "actions", "carry"), actor.device, part)
        params = actor.params(data["obs"], data["agent_index"], data["legal"], data["carry"][:, : actor.carry_size])
        found[part] = actor.distribution.logp(params, data["actions"]).cpu().numpy()
    return found
