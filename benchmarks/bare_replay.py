"""Off-policy updates by hand, on the same replay class as the learners; see ``bare_on_policy.py``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from bare_on_policy import mlp, with_seat
from torch import Tensor, nn

from marl.algos.nfsp.reservoir import Reservoir
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.replay import Replay
from marl.data.task import Task

Rows = dict[str, Tensor]


class OffPolicy:
    """Remembers grids and makes ``updates_per_step`` updates per env step. ``per_agent``: a row is one agent's decision."""

    per_agent = False

    def __init__(self, algo: str, task: Task, config: Any, hiddens: Sequence[int]) -> None:
        self.algo, self.config, self.hiddens, self.updates, self.debt = algo, config, hiddens, 0, 0.0
        kind = task.kinds[0]
        self.agents, self.kind = kind.size, kind
        self.width = kind.obs_width + (kind.size if kind.size > 1 else 0)
        alpha = config.prioritized_replay_alpha if config.prioritized_replay else 0.0
        self.replay, self.rng = Replay(config.buffer_size, alpha), np.random.default_rng(0)

    def adam(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Adam:
        return torch.optim.Adam(parameters, self.config.lr, eps=1e-5, fused=True)

    def learn(self, batch: MultiAgentBatch) -> None:
        self.remember(batch)
        self.debt += self.config.updates_per_step * batch.env_steps
        while self.debt >= 1:
            self.debt -= 1
            self.update(self.sample())

    def remember(self, batch: MultiAgentBatch) -> None:
        steps, copies = batch.t.shape
        count = steps * copies
        rewards = batch.rewards if self.per_agent else batch.rewards.sum(axis=2, keepdims=True)
        agents = rewards.shape[2]
        columns = {
            "obs": with_seat(batch.obs[0]).numpy().reshape(count, self.agents, -1),
            "new_obs": with_seat(batch.new_obs[0]).numpy().reshape(count, self.agents, -1),
            "actions": batch.actions[0].reshape(count, self.agents, -1), "state": batch.state.reshape(count, -1),
            "new_state": batch.new_state.reshape(count, -1), "t": batch.t.reshape(count),
            "eps_id": batch.eps_id.reshape(count), "lane": np.tile(np.arange(copies), steps),
        }  # fmt: skip
        columns = {name: np.repeat(column, agents, axis=0) for name, column in columns.items()}
        ended = (batch.terminateds | batch.truncateds)[:, :, :agents].reshape(-1)
        columns |= {
            "rewards": rewards.reshape(-1), "terminateds": batch.terminateds[:, :, :agents].reshape(-1), "ended": ended,
            "elapsed": np.ones(len(ended), np.int64), "seat": np.tile(np.arange(agents), count),
        }  # fmt: skip
        self.replay.add(SampleBatch(columns), columns["lane"] * agents + columns["seat"])

    def sample(self) -> Rows:
        config = self.config
        rows = self.replay.sample(
            config.train_batch_size, self.rng, config.n_step, config.gamma, config.prioritized_replay_beta
        )
        return {name: torch.from_numpy(rows[name]) for name in rows}

    def target(self, rows: Rows, next_value: Tensor) -> Tensor:
        return rows["rewards"] + self.config.gamma ** rows["elapsed"] * next_value * ~rows["terminateds"]

    def step(self, loss: Tensor, optimiser: torch.optim.Optimizer, parameters: list[nn.Parameter]) -> None:
        optimiser.zero_grad()
        loss.backward(inputs=parameters)  # type: ignore[no-untyped-call]
        if self.config.grad_clip is not None:
            nn.utils.clip_grad_norm_(parameters, self.config.grad_clip)
        optimiser.step()

    def finish(self, rows: Rows, error: Tensor) -> None:
        self.updates += 1
        if self.config.prioritized_replay:
            self.replay.update_priorities(rows["place"].numpy(), error.detach().numpy())

    def follow(self, target: nn.Module, source: nn.Module) -> None:
        mine, theirs = list(target.parameters()), list(source.parameters())
        with torch.no_grad():
            torch._foreach_lerp_(mine, theirs, self.config.tau)

    def update(self, rows: Rows) -> None:
        raise NotImplementedError


class Mixer(nn.Module):
    """QMIX's monotonic network."""

    def __init__(self, agents: int, state: int, embed: int) -> None:
        super().__init__()
        self.agents, self.embed = agents, embed
        self.w1, self.b1, self.w2 = (nn.Linear(state, n) for n in (agents * embed, embed, embed))
        self.v = nn.Sequential(nn.Linear(state, embed), nn.ReLU(), nn.Linear(embed, 1))

    def forward(self, values: Tensor, state: Tensor) -> Tensor:
        w1 = self.w1(state).abs().view(-1, self.agents, self.embed)
        hidden = F.elu(torch.bmm(values[:, None], w1)[:, 0] + self.b1(state))
        mixed: Tensor = (hidden * self.w2(state).abs()).sum(1) + self.v(state)[:, 0]
        return mixed


class Values(OffPolicy):
    """dqn, apex, vdn, qmix."""

    def __init__(self, algo: str, task: Task, config: Any, hiddens: Sequence[int]) -> None:
        super().__init__(algo, task, config, hiddens)
        self.actions = int(self.kind.action_space.n)  # type: ignore[attr-defined]
        self.net = mlp(self.width, hiddens, self.actions + int(config.dueling))
        state = task.state_size or self.agents * self.kind.obs_width
        self.mixer = Mixer(self.agents, state, config.mixing_embed_dim) if config.mixer == "monotonic" else nn.Module()
        self.target_net, self.target_mixer = deepcopy(self.net), deepcopy(self.mixer)
        self.parameters = [*self.net.parameters(), *self.mixer.parameters()]
        self.optimiser = self.adam(self.parameters)

    def values(self, net: nn.Module, obs: Tensor) -> Tensor:
        out: Tensor = net(obs)
        return out[..., :1] + out[..., 1:] - out[..., 1:].mean(-1, keepdim=True) if self.config.dueling else out

    def mix(self, mixer: nn.Module, values: Tensor, rows: Rows, when: str) -> Tensor:
        if self.config.mixer != "monotonic":
            return values.sum(1)
        state = rows[f"{when}state"]
        mixed: Tensor = mixer(values, state if state.shape[1] else rows[f"{when}obs"][..., : -self.agents].flatten(1))
        return mixed

    def update(self, rows: Rows) -> None:
        chosen = self.values(self.net, rows["obs"]).gather(2, rows["actions"]).squeeze(2)
        chosen = self.mix(self.mixer, chosen, rows, "")
        with torch.no_grad():
            best = self.values(self.net, rows["new_obs"]).argmax(2, keepdim=True)
            following = self.values(self.target_net, rows["new_obs"]).gather(2, best).squeeze(2)
            target = self.target(rows, self.mix(self.target_mixer, following, rows, "new_"))
        error = chosen - target
        self.step((rows["weights"] * error.square()).mean(), self.optimiser, self.parameters)
        self.finish(rows, error)
        if self.updates % self.config.target_update_every == 0:
            self.target_net.load_state_dict(self.net.state_dict())
            self.target_mixer.load_state_dict(self.mixer.state_dict())


class Fictitious(Values):
    """nfsp: dqn, and an imitation of those decisions that the best response made."""

    def __init__(self, algo: str, task: Task, config: Any, hiddens: Sequence[int]) -> None:
        super().__init__(algo, task, config.best_response(), hiddens)
        self.average = mlp(self.width, hiddens, int(self.kind.action_space.n))  # type: ignore[attr-defined]
        self.average_parameters = list(self.average.parameters())
        self.imitator = torch.optim.Adam(self.average_parameters, config.average_lr, eps=1e-5, fused=True)
        self.reservoir = Reservoir(config.reservoir_size)

    def remember(self, batch: MultiAgentBatch) -> None:
        super().remember(batch)
        best = batch.active & (batch.action_logp == 0.0)
        rows = {"obs": with_seat(batch.obs[0]).numpy()[best], "actions": batch.actions[0][best]}
        self.reservoir.add(SampleBatch(rows), self.rng)

    def update(self, rows: Rows) -> None:
        super().update(rows)
        if not len(self.reservoir):
            return
        drawn = self.reservoir.sample(self.config.train_batch_size, self.rng)
        logits = self.average(torch.from_numpy(drawn["obs"]))
        loss = F.cross_entropy(logits, torch.from_numpy(drawn["actions"]))
        self.step(loss, self.imitator, self.average_parameters)


class Deterministic(OffPolicy):
    """ddpg, td3, apex_ddpg, maddpg over Box actions; maddpg's critic sees everybody and the one-hot seat that it is for."""

    per_agent = True
    twins = False
    outputs = 1  # of the actor, per coordinate

    def __init__(self, algo: str, task: Task, config: Any, hiddens: Sequence[int]) -> None:
        super().__init__(algo, task, config, hiddens)
        self.moves = int(np.prod(self.kind.action_shape))
        self.actor = mlp(self.width, hiddens, self.outputs * self.moves)
        inputs = self.agents * (self.kind.obs_width + self.moves) + (self.agents if self.agents > 1 else 0)
        count = 1 + int(self.twins or config.twin_q)
        self.critics = nn.ModuleList([mlp(inputs, hiddens, 1) for _ in range(count)])
        self.target_actor, self.target_critics = deepcopy(self.actor), deepcopy(self.critics)
        self.actor_parameters, self.critic_parameters = list(self.actor.parameters()), list(self.critics.parameters())
        self.actor_adam, self.critic_adam = self.adam(self.actor_parameters), self.adam(self.critic_parameters)

    def view(self, obs: Tensor, actions: Tensor, rows: Rows) -> Tensor:
        if self.agents == 1:
            return torch.cat([obs.flatten(1), actions.flatten(1)], 1)
        seat = F.one_hot(rows["seat"], self.agents).float()
        return torch.cat([obs[..., : -self.agents].flatten(1), actions.flatten(1), seat], 1)

    def update(self, rows: Rows) -> None:
        config = self.config
        with torch.no_grad():
            moves = torch.tanh(self.target_actor(rows["new_obs"]))
            if config.target_noise:
                noise = (config.target_noise * torch.randn_like(moves)).clamp(-0.5, 0.5)
                moves = (moves + noise).clamp(-1, 1)
            view = self.view(rows["new_obs"], moves, rows)
            target = self.target(rows, torch.cat([net(view) for net in self.target_critics], 1).amin(1))
        view = self.view(rows["obs"], rows["actions"], rows)
        error = torch.cat([net(view) for net in self.critics], 1) - target[:, None]
        loss = (rows["weights"][:, None] * error.square()).mean(0).sum()
        self.step(loss, self.critic_adam, self.critic_parameters)
        self.finish(rows, error.mean(1))
        if self.updates % config.policy_delay == 0:
            own = torch.tanh(out := self.actor(rows["obs"][torch.arange(len(target)), rows["seat"]]))
            moves = rows["actions"].clone()
            moves[torch.arange(len(target)), rows["seat"]] = own
            climb = self.critics[0](self.view(rows["obs"], moves, rows)).mean()
            self.step(config.actor_reg * out.square().mean() - climb, self.actor_adam, self.actor_parameters)
            self.follow(self.target_actor, self.actor)
            self.follow(self.target_critics, self.critics)


class Soft(Deterministic):
    """sac over Box actions, with automatic temperature."""

    twins = True
    outputs = 2  # mean and log deviation

    def __init__(self, algo: str, task: Task, config: Any, hiddens: Sequence[int]) -> None:
        super().__init__(algo, task, config, hiddens)
        self.log_alpha = nn.Parameter(torch.zeros(()))
        self.alpha_adam = self.adam([self.log_alpha])

    def draw(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.actor(obs.flatten(1)).chunk(2, 1)
        log_std = log_std.clamp(-20, 2)
        noise = torch.randn_like(mean)
        raw = mean + log_std.exp() * noise
        logp = -(0.5 * noise.square() + log_std + 0.9189385 + 2 * (0.6931472 - raw - F.softplus(-2 * raw))).sum(1)
        return torch.tanh(raw), logp

    def update(self, rows: Rows) -> None:
        alpha = self.log_alpha.detach().exp()
        with torch.no_grad():
            moves, logp = self.draw(rows["new_obs"])
            view = self.view(rows["new_obs"], moves, rows)
            soft = torch.cat([net(view) for net in self.target_critics], 1).amin(1) - alpha * logp
            target = self.target(rows, soft)
        view = self.view(rows["obs"], rows["actions"], rows)
        error = torch.cat([net(view) for net in self.critics], 1) - target[:, None]
        loss = (0.5 * rows["weights"][:, None] * error.square()).mean(0).sum()
        self.step(loss, self.critic_adam, self.critic_parameters)
        moves, logp = self.draw(rows["obs"])
        view = self.view(rows["obs"], moves, rows)
        climb = torch.cat([net(view) for net in self.critics], 1).amin(1)
        self.step((alpha * logp - climb).mean(), self.actor_adam, self.actor_parameters)
        entropy = -logp.detach().mean()
        self.step(self.log_alpha.exp() * (entropy + self.moves), self.alpha_adam, [self.log_alpha])
        self.follow(self.target_critics, self.critics)
        self.finish(rows, error.mean(1))


class NoisyLinear(nn.Linear):
    """Its weights are drawn anew whenever it is called."""

    def __init__(self, inputs: int, outputs: int, sigma0: float) -> None:
        super().__init__(inputs, outputs)
        self.weight_sigma = nn.Parameter(torch.full_like(self.weight, sigma0 / inputs**0.5))
        self.bias_sigma = nn.Parameter(torch.full_like(self.bias, sigma0 / inputs**0.5))

    def forward(self, x: Tensor) -> Tensor:
        into, out = (e.sign() * e.abs().sqrt() for e in (torch.randn(self.in_features), torch.randn(self.out_features)))
        weight = self.weight + self.weight_sigma * torch.outer(out, into)
        return F.linear(x, weight, self.bias + self.bias_sigma * out)


def with_noise(net: nn.Module, sigma0: float) -> nn.Module:
    """The same layers, noisy."""
    layers: list[nn.Module] = []
    for layer in net.children():
        layers.append(
            NoisyLinear(layer.in_features, layer.out_features, sigma0) if isinstance(layer, nn.Linear) else layer
        )
    return nn.Sequential(*layers)


class NoisyValues(Values):
    """noisy_dqn."""

    def __init__(self, algo: str, task: Task, config: Any, hiddens: Sequence[int]) -> None:
        super().__init__(algo, task, config, hiddens)
        self.outfit(mlp(self.width, hiddens, self.actions + int(config.dueling)))

    def outfit(self, net: nn.Module) -> None:
        self.net = with_noise(net, self.config.sigma0)
        self.target_net = deepcopy(self.net)
        self.parameters = list(self.net.parameters())
        self.optimiser = self.adam(self.parameters)


class Rainbow(NoisyValues):
    """Chances of returns by noisy layers."""

    def __init__(self, algo: str, task: Task, config: Any, hiddens: Sequence[int]) -> None:
        super().__init__(algo, task, config, hiddens)
        self.outfit(mlp(self.width, hiddens, (self.actions + int(config.dueling)) * config.num_atoms))
        self.support = torch.linspace(config.v_min, config.v_max, config.num_atoms)

    def scores(self, net: nn.Module, obs: Tensor) -> Tensor:
        out = net(obs.flatten(0, 1)).view(len(obs), -1, self.config.num_atoms)
        return out[:, :1] + out[:, 1:] - out[:, 1:].mean(1, keepdim=True) if self.config.dueling else out

    def update(self, rows: Rows) -> None:
        here, actions = torch.arange(len(rows["obs"])), rows["actions"].flatten()
        log_chances = self.scores(self.net, rows["obs"])[here, actions].log_softmax(-1)
        with torch.no_grad():
            best = (self.scores(self.net, rows["new_obs"]).softmax(-1) * self.support).sum(-1).argmax(1)
            later = self.scores(self.target_net, rows["new_obs"])[here, best].softmax(-1)
            moved = torch.stack([self.target(rows, z.expand(len(here))) for z in self.support], 1)
            moved = moved.clamp(self.config.v_min, self.config.v_max)
            near = 1 - (moved[:, None] - self.support[:, None]).abs() / (self.support[1] - self.support[0])
            target = (near.clamp(min=0) * later[:, None]).sum(-1)
        each = -(target * log_chances).sum(-1)
        self.step((rows["weights"] * each).mean(), self.optimiser, self.parameters)
        self.finish(rows, each.detach() + torch.xlogy(target, target).sum(-1))
        if self.updates % self.config.target_update_every == 0:
            self.target_net.load_state_dict(self.net.state_dict())


class SoftValues(Values):
    """softq: a soft maximum by the slow copy."""

    def update(self, rows: Rows) -> None:
        chosen = self.values(self.net, rows["obs"]).gather(2, rows["actions"]).flatten()
        with torch.no_grad():
            later = self.values(self.target_net, rows["new_obs"]) / self.config.temperature
            target = self.target(rows, self.config.temperature * later.logsumexp(2).flatten())
        error = chosen - target
        self.step((rows["weights"] * error.square()).mean(), self.optimiser, self.parameters)
        self.finish(rows, error)
        if self.updates % self.config.target_update_every == 0:
            self.target_net.load_state_dict(self.net.state_dict())
