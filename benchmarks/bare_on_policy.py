"""On-policy updates by hand: plain torch modules, fused Adam, the arrays of a recorded grid. The limit for the learners.

Every loop takes the same grids as the learner of its preset and makes the same number of gradient steps on the same number of
rows with networks of the same sizes. Every agent of these envs is asked at every step, which the loops make use of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from marl.data.batch import MultiAgentBatch
from marl.data.task import Task


def mlp(inputs: int, hiddens: Sequence[int], outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in hiddens:
        layers += [nn.Linear(inputs, width), nn.Tanh()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


def with_seat(obs: np.ndarray[Any, Any]) -> Tensor:
    """``[T, E, A, width]``; several agents of one policy see their one-hot seat as well."""
    seen = torch.from_numpy(np.ascontiguousarray(obs))
    agents = seen.shape[2]
    return seen if agents == 1 else torch.cat([seen, torch.eye(agents).expand(*seen.shape[:2], -1, -1)], dim=3)


class ActorCritic:
    """pg, a2c, a3c, ia2c, maa2c, impala, ppo, ippo, mappo, happo, marwil, bc over Discrete actions."""

    def __init__(self, algo: str, task: Task, config: Any, hiddens: Sequence[int]) -> None:
        kind = task.kinds[0]
        self.algo, self.config, self.updates, self.squares = algo, config, 0, 100.0
        self.joint = algo in ("mappo", "happo", "maa2c")
        own = kind.obs_width + (kind.size if kind.size > 1 else 0)
        self.actor = mlp(own, hiddens, int(kind.action_space.n))  # type: ignore[attr-defined]
        self.critic = mlp(kind.obs_width * kind.size + kind.size if self.joint else own, hiddens, 1)
        self.without_critic = algo in ("pg", "bc")
        self.parameters = [*self.actor.parameters(), *(() if self.without_critic else self.critic.parameters())]
        self.optimiser = torch.optim.Adam(self.parameters, config.lr, eps=1e-5, fused=True)

    def learn(self, batch: MultiAgentBatch) -> None:
        obs, new = with_seat(batch.obs[0]), with_seat(batch.new_obs[0])
        view, new_view = (self.together(obs), self.together(new)) if self.joint else (obs, new)
        values, next_values = np.zeros_like(batch.rewards), np.zeros_like(batch.rewards)
        if self.algo not in ("pg", "bc", "marwil"):
            with torch.no_grad():
                values, next_values = self.critic(view)[..., 0].numpy(), self.critic(new_view)[..., 0].numpy()
        actions = torch.from_numpy(batch.actions[0])
        advantages, targets = self.estimate(batch, obs, actions, values, next_values)
        active = batch.active
        rows = {
            "obs": obs[active], "view": view[active], "actions": actions[active],
            "old": torch.from_numpy(batch.action_logp[active]), "targets": torch.from_numpy(targets[active]),
            "advantages": torch.from_numpy(advantages[active]),
        }  # fmt: skip
        scale = rows["advantages"]
        if self.algo not in ("marwil", "bc"):
            rows["advantages"] = (scale - scale.mean()) / (scale.std(unbiased=False) + 1e-8)
        for part in self.minibatches(rows):
            self.update(part)

    def together(self, obs: Tensor) -> Tensor:
        """Everybody's observation and one's own one-hot seat."""
        agents = obs.shape[2]
        everybody = obs[..., :-agents].flatten(2)[:, :, None].expand(-1, -1, agents, -1)
        return torch.cat([everybody, obs[..., -agents:]], dim=3)

    def estimate(
        self, batch: MultiAgentBatch, obs: Tensor, actions: Tensor, values: Any, next_values: Any
    ) -> tuple[Any, Any]:
        """Advantages and value targets ``[T, E, A]``: GAE, V-trace, or plain returns."""
        gamma, trace = self.config.gamma, getattr(self.config, "gae_lambda", 1.0)
        if self.algo in ("pg", "marwil", "bc"):
            trace = 1.0
        rho: Any = 1.0
        if self.algo == "impala":
            with torch.no_grad():
                logp = self.actor(obs).log_softmax(-1).gather(-1, actions[..., None])[..., 0]
                rho = (logp - torch.from_numpy(batch.action_logp)).exp().clamp(max=1.0).numpy()
        ends = batch.terminateds | batch.truncateds
        delta = rho * (batch.rewards + gamma * next_values * ~batch.terminateds - values)
        carry_on = gamma * trace * rho * ~ends
        sums, running = np.zeros_like(values), np.zeros_like(values[0])
        for t in range(len(values) - 1, -1, -1):
            running = delta[t] + carry_on[t] * running
            sums[t] = running
        return sums, sums + values

    def minibatches(self, rows: dict[str, Tensor]) -> Any:
        if self.algo not in ("ppo", "ippo", "mappo", "happo", "marwil", "bc"):
            yield rows
            return
        count, size = len(rows["obs"]), self.config.sgd_minibatch_size
        for _ in range(self.config.num_sgd_iter):
            order = torch.randperm(count)
            for start in range(0, count, size):
                chosen = order[start : start + size]
                yield {name: column[chosen] for name, column in rows.items()}

    def update(self, part: dict[str, Tensor]) -> None:
        logs = self.actor(part["obs"]).log_softmax(1)
        logp = logs.gather(1, part["actions"][:, None]).squeeze(1)
        entropy = -(logs.exp() * logs).sum(1).mean()
        loss = self.actor_loss(logp, part) - getattr(self.config, "entropy_coeff", 0.0) * entropy
        if not self.without_critic:
            weight = self.config.vf_coeff if self.algo == "marwil" else self.config.vf_loss_coeff
            loss = loss + weight * (self.critic(part["view"]).squeeze(1) - part["targets"]).square().mean()
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if self.config.grad_clip is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.config.grad_clip)
        self.optimiser.step()
        self.updates += 1

    def actor_loss(self, logp: Tensor, part: dict[str, Tensor]) -> Tensor:
        if self.algo == "bc":
            return -logp.mean()
        if self.algo == "marwil":
            with torch.no_grad():
                advantages = part["targets"] - self.critic(part["view"]).squeeze(1)
                self.squares += 0.01 * (float(advantages.square().mean()) - self.squares)
                weights = (self.config.beta * advantages / self.squares**0.5).clamp(max=3.0).exp()
            return -(weights * logp).mean()
        advantages = part["advantages"]
        if self.algo not in ("ppo", "ippo", "mappo", "happo"):
            return -(logp * advantages).mean()
        ratio, clip = (logp - part["old"]).exp(), self.config.clip_param
        return -torch.min(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages).mean()


class Counterfactual(ActorCritic):
    """coma: a critic of every own action that sees what the others do; for teams of several agents."""

    def __init__(self, algo: str, task: Task, config: Any, hiddens: Sequence[int]) -> None:
        super().__init__(algo, task, config, hiddens)
        kind = task.kinds[0]
        self.agents, self.choices = kind.size, int(kind.action_space.n)  # type: ignore[attr-defined]
        self.critic = mlp((kind.obs_width + self.choices + 1) * self.agents, hiddens, self.choices)
        self.parameters = [*self.actor.parameters(), *self.critic.parameters()]
        self.optimiser = torch.optim.Adam(self.parameters, config.lr, eps=1e-5, fused=True)

    def learn(self, batch: MultiAgentBatch) -> None:
        obs, new = with_seat(batch.obs[0]), with_seat(batch.new_obs[0])
        actions = torch.from_numpy(batch.actions[0])
        with torch.no_grad():
            chances = self.actor(new).softmax(-1)
            view = self.beside(obs, actions)
            values = self.critic(view).gather(3, actions[..., None])[..., 0]
            new_view = self.beside(new, self.following(batch, actions, chances))
            next_values = (chances * self.critic(new_view)).sum(-1)
        _, targets = self.estimate(batch, obs, actions, values.numpy(), next_values.numpy())
        learned = torch.from_numpy((targets - targets.mean()) / (targets.std() + 1e-8))
        active = batch.active
        self.update({"obs": obs[active], "view": view[active], "actions": actions[active], "targets": learned[active]})

    def following(self, batch: MultiAgentBatch, actions: Tensor, chances: Tensor) -> Tensor:
        """What everybody does next; drawn where nobody has played on."""
        found = actions.roll(-1, 0)
        unknown = torch.from_numpy((batch.terminateds | batch.truncateds).any(axis=2))
        unknown[-1] = True
        drawn = torch.multinomial(chances[unknown].flatten(0, 1), 1)
        found[unknown] = drawn.view(-1, self.agents)
        return found

    def beside(self, obs: Tensor, actions: Tensor) -> Tensor:
        """Everybody's observation, one's own seat, and what all others do."""
        done = nn.functional.one_hot(actions, self.choices).float()[:, :, None]
        others = (1 - torch.eye(self.agents))[:, :, None] * done
        return torch.cat([self.together(obs), others.flatten(3)], dim=3)

    def update(self, part: dict[str, Tensor]) -> None:
        logs, values = self.actor(part["obs"]).log_softmax(1), self.critic(part["view"])
        chances = logs.exp()
        weights = chances.detach() * (values - (chances * values).sum(1, keepdim=True)).detach()
        taken = values.gather(1, part["actions"][:, None]).squeeze(1)
        loss = -(weights * logs).sum(1).mean() + self.config.entropy_coeff * (chances * logs).sum(1).mean()
        loss = loss + self.config.vf_loss_coeff * (taken - part["targets"]).square().mean()
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.parameters, self.config.grad_clip)
        self.optimiser.step()
        self.updates += 1


class Evolution:
    """es: centred ranks of given scores, noise from seeds, one step of Adam."""

    def __init__(self, task: Task, config: Any, hiddens: Sequence[int]) -> None:
        kind = task.kinds[0]
        self.config, self.updates, self.rng = config, 0, np.random.default_rng(0)
        self.actor = mlp(kind.obs_width, hiddens, int(kind.action_space.n))  # type: ignore[attr-defined]
        self.flat = nn.Parameter(nn.utils.parameters_to_vector(self.actor.parameters()).detach())
        self.optimiser = torch.optim.Adam([self.flat], config.lr, eps=1e-5, fused=True)

    def learn(self, scores: np.ndarray[Any, Any]) -> None:
        """``[n, 2]``: what the policies moved by + and by - the noise were paid."""
        ranks = scores.reshape(-1).argsort().argsort().reshape(scores.shape) / (scores.size - 1) - 0.5
        total = np.zeros(len(self.flat), np.float64)
        for seed, weight in zip(self.rng.integers(0, 2**62, len(scores)), ranks[:, 0] - ranks[:, 1], strict=True):
            total += weight * np.random.default_rng(seed).standard_normal(len(self.flat), np.float32)
        gradient = total / (2 * len(scores) * self.config.noise_stdev)
        self.flat.grad = torch.from_numpy(-gradient.astype(np.float32))
        self.optimiser.step()
        nn.utils.vector_to_parameters(self.flat.detach(), self.actor.parameters())
        self.updates += 1
