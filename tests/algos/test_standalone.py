"""The first twenty updates of our learners and of ``examples/standalone``, which share no code, on the same experience.

Both begin with the same weights and draw minibatches by the same generator. The experience comes from the env's own log, so
grids, replays and views are part of what is compared. All is float32, whose last digit is 1e-7 of a weight; both sides add up
in different orders, so 1e-6 is about ten roundings.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from examples.standalone import dqn, maddpg, mappo, ppo, qmix
from marl.algos.central_critic.learner import CentralCriticLearner
from marl.algos.maddpg.learner import MaddpgLearner
from marl.algos.optimiser import FlatOptimiser
from marl.algos.qmix.learner import QmixLearner
from marl.policies.mlp import MLP
from marl.policies.networks import Body
from marl.training.trainer import Trainer
from tests.algos.updates import found_in
from tests.algos.witnessed import OPTIONS, WIDTH, Record, Witnessed, witnessed_rounds

STEPS, COPIES, HIDDEN = 12, 4, (16, 12)
AGENTS, LR = 3, 0.003
CLOSE = 1e-6
Pair = tuple[nn.Parameter, nn.Parameter]


def run_of(algo: str, env: Mapping[str, Any], keys: Mapping[str, Any], **scenario: Any) -> Trainer:
    """A run whose iterations play ``STEPS`` steps of ``COPIES`` copies, with weights that prefer some actions clearly."""
    Witnessed.logs.clear()
    trainer = Trainer(
        algo,
        env="tests.algos.witnessed:Witnessed",
        config={
            "fcnet_hiddens": list(HIDDEN), "num_envs_per_worker": COPIES, "rollout_fragment_length": STEPS,
            "timesteps_per_iteration": STEPS * COPIES, "seed": 3, "evaluation": {"interval": 0},
            "env_config": dict(env), "algo": dict(keys), **scenario,
        },
    )  # fmt: skip
    rng = np.random.default_rng(11)
    for block in found_in(trainer.learners[0], FlatOptimiser):
        block.flat += torch.as_tensor(rng.normal(size=len(block.flat)) * 0.3, dtype=torch.float32)
    trainer.set_weights(trainer.get_weights())
    return trainer


def layers(ours: nn.Module, theirs: nn.Sequential) -> list[Pair]:
    """Weights and biases of our fully connected layers beside those of a Sequential."""
    network = ours.network if isinstance(ours, Body) else ours
    assert isinstance(network, MLP)
    linear = [layer for layer in theirs if isinstance(layer, nn.Linear)]
    pairs: list[Pair] = []
    for weight, bias, layer in zip(network.weights, network.biases, linear, strict=True):
        pairs += [(weight, layer.weight), (bias, layer.bias)]
    return pairs


@torch.no_grad()
def copy_weights(pairs: Sequence[Pair]) -> None:
    for ours, theirs in pairs:
        theirs.copy_(ours)


def distance(pairs: Sequence[Pair]) -> float:
    """The largest difference of a weight."""
    return max(float((ours - theirs).detach().abs().max()) for ours, theirs in pairs)


def moment_distance(pairs: Sequence[Pair], learner: Any, theirs: torch.optim.Optimizer) -> float:
    """The largest difference of what the two Adams remember of the gradients, in units of their usual size."""
    worst = 0.0
    for mine, other in pairs:
        for name in ("exp_avg", "exp_avg_sq"):
            remembered = _of_block(mine, found_in(learner, FlatOptimiser), name)
            wanted = theirs.state[other][name]
            worst = max(worst, float((remembered - wanted).abs().max()) / max(1.0, float(wanted.abs().max())))
    return worst


def _of_block(parameter: nn.Parameter, blocks: Sequence[FlatOptimiser], name: str) -> Tensor:
    """What the optimiser that holds this parameter remembers of it."""
    for block in blocks:
        at = (parameter.data_ptr() - block.flat.data_ptr()) // parameter.element_size()
        if 0 <= at < len(block.flat):
            return block.state[name][at : at + parameter.numel()].view_as(parameter)
    raise AssertionError("no optimiser holds this parameter")


def transitions(rounds: Record) -> Iterator[Record]:
    """One at a time, in the order of time and of copies."""
    for t in range(STEPS):
        for e in range(COPIES):
            yield {name: column[t, e] for name, column in rounds.items()}


# -- on-policy ---------------------------------------------------------------------------------------------------------

BATCHES = 4  # of 2 passes over at least 3 minibatches
COMMON = {"gamma": 0.9, "lr": LR}
CLIPPED = {
    **COMMON, "train_batch_size": STEPS * COPIES, "num_sgd_iter": 2, "gae_lambda": 0.8, "clip_param": 0.15,
    "entropy_coeff": 0.02, "vf_loss_coeff": 0.7, "grad_clip": 0.4,
}  # fmt: skip
SAME = {
    "gamma": 0.9, "lr": LR, "epochs": 2, "gae_lambda": 0.8, "clip": 0.15, "entropy_coeff": 0.02, "vf_coeff": 0.7,
    "max_grad_norm": 0.4, "hidden": HIDDEN,
}  # fmt: skip


def test_ppo_moves_every_weight_as_the_page_that_students_read() -> None:
    config = ppo.Config(**SAME, minibatch=20)
    with run_of("ppo", {"agents": 1}, {**CLIPPED, "sgd_minibatch_size": 20}) as trainer:
        learner = trainer.learners[0]
        assert isinstance(learner, CentralCriticLearner)
        agent = ppo.Agent(WIDTH, OPTIONS, HIDDEN)
        pairs = layers(learner.actors["default_policy"].model, agent.actor)
        pairs += layers(learner.critics["default_policy"].network, agent.critic)
        copy_weights(pairs)
        optimiser = torch.optim.Adam(agent.parameters(), lr=config.lr, eps=1e-5)
        rng = deepcopy(learner.rng)
        for _ in range(BATCHES):
            trainer.train()
            batch = {name: column[:, :, 0] for name, column in witnessed_rounds(STEPS).items() if "state" not in name}
            with torch.no_grad():
                policy = agent.policy(torch.as_tensor(batch["obs"]))
                batch["logp"] = policy.log_prob(torch.as_tensor(batch["actions"])).numpy()
            ppo.update(agent, optimiser, batch, config, rng)
            assert distance(pairs) < CLOSE
        assert learner.counters["num_updates"] == 24
        assert batch["terminated"].any()
        assert batch["truncated"].any()
        assert moment_distance(pairs, learner, optimiser) < CLOSE


def test_mappo_moves_every_weight_as_the_page_that_students_read() -> None:
    config = mappo.Config(**SAME, minibatch=40)
    env = {"agents": AGENTS, "masked": True}
    keys = {**CLIPPED, "sgd_minibatch_size": 40, "normalize_values": False}  # the page leaves returns as they are
    with run_of("mappo", env, keys, **GROUP) as trainer:
        learner = trainer.learners[0]
        assert isinstance(learner, CentralCriticLearner)
        team = mappo.Team(AGENTS, WIDTH, OPTIONS, HIDDEN)
        pairs = layers(learner.actors["default_policy"].model, team.actor)
        pairs += layers(learner.critics["default_policy"].network, team.critic)
        copy_weights(pairs)
        optimiser = torch.optim.Adam(team.parameters(), lr=config.lr, eps=1e-5)
        rng = deepcopy(learner.rng)
        for _ in range(BATCHES):
            trainer.train()
            batch = witnessed_rounds(STEPS)
            with torch.no_grad():
                policy = team.policy(torch.as_tensor(batch["obs"]), torch.as_tensor(batch["legal"]))
                batch["logp"] = policy.log_prob(torch.as_tensor(batch["actions"])).numpy()
            mappo.update(team, optimiser, batch, config, rng)
            assert distance(pairs) < CLOSE
        assert learner.counters["num_updates"] >= 20
        assert not batch["there"].all()
        assert (batch["terminated"].any(axis=2) & batch["truncated"].any(axis=2)).any()
        assert moment_distance(pairs, learner, optimiser) < CLOSE


GROUP = {"multiagent": {"groups": {"team": [f"agent_{i}" for i in range(AGENTS)]}}}

# -- with a replay -----------------------------------------------------------------------------------------------------

PER_ROUND = 8
REPLAYED = {
    **COMMON, "learning_starts": 1, "updates_per_step": PER_ROUND / (STEPS * COPIES), "train_batch_size": 16,
    "buffer_size": 100, "grad_clip": 0.4,
}  # fmt: skip
SAME_REPLAY = {
    "gamma": 0.9, "lr": LR, "batch_size": 16, "buffer_size": 100, "max_grad_norm": 0.4, "hidden": HIDDEN,
}  # fmt: skip
PLAIN = {"normalize_rewards": False}  # those pages count in rewards as they are
PLAIN_MIXER = {"normalize_state": False, "hypernet_embed": 0, "bootstrap_at_time_limit": True}
ROUNDS = 3  # 144 transitions: the replay has begun to overwrite the oldest ones


def test_dqn_moves_every_weight_and_its_slow_copy_as_the_page_that_students_read() -> None:
    config = dqn.Config(**SAME_REPLAY, target_update_every=5)
    with run_of("dqn", {"agents": 1}, {**REPLAYED, **PLAIN, "target_update_every": 5}) as trainer:
        learner = trainer.learners[0]
        assert isinstance(learner, QmixLearner)
        online, target = (dqn.QNetwork(WIDTH, OPTIONS, HIDDEN) for _ in range(2))
        pairs = layers(learner.values["default_policy"].model, online.layers)
        slow = layers(learner.targets["default_policy"].model, target.layers)
        copy_weights([*pairs, *slow])
        optimiser = torch.optim.Adam(online.parameters(), lr=config.lr, eps=1e-5)
        replay, rng, number = dqn.Replay(100), deepcopy(learner.rng), 0
        for _ in range(ROUNDS):
            trainer.train()
            for step in transitions(witnessed_rounds(STEPS)):
                kept = ("obs", "actions", "rewards", "next_obs", "terminated")
                replay.add(**{name: step[name][0] for name in kept})
            for _ in range(PER_ROUND):
                number += 1
                dqn.update(online, target, optimiser, replay.sample(16, rng), config, number)
            assert distance(pairs) < CLOSE
            assert distance(slow) < CLOSE
        assert learner.counters["num_updates"] == number == 24
        assert moment_distance(pairs, learner, optimiser) < CLOSE


def test_qmix_moves_agents_mixer_and_their_slow_copies_as_the_page_that_students_read() -> None:
    config = qmix.Config(**SAME_REPLAY, target_update_every=5, mixing=8)
    keys = {**REPLAYED, **PLAIN, "target_update_every": 5, "mixing_embed_dim": 8, **PLAIN_MIXER}
    with run_of("qmix", {"agents": AGENTS, "masked": True}, keys, **GROUP) as trainer:
        learner = trainer.learners[0]
        assert isinstance(learner, QmixLearner)
        team, target = (qmix.Team(_Sizes, config) for _ in range(2))
        pairs = layers(learner.values["default_policy"].model, team.agents.layers)
        pairs += mixer_layers(learner.teams[0].mixer, team.mixer)
        slow = layers(learner.targets["default_policy"].model, target.agents.layers)
        slow += mixer_layers(learner.teams[0].target_mixer, target.mixer)
        with (
            torch.no_grad()
        ):  # as large as those of the page: with tiny ones Adam divides rounding errors by rounding errors
            for ours in (learner.teams[0].mixer, learner.teams[0].target_mixer):
                for parameter in (*ours.b1.parameters(), *ours.v.parameters()):  # type: ignore[union-attr]
                    parameter.mul_(10)
        copy_weights([*pairs, *slow])
        optimiser = torch.optim.Adam(team.parameters(), lr=config.lr, eps=1e-5)
        replay, rng, number = qmix.Replay(100), deepcopy(learner.rng), 0
        for _ in range(ROUNDS):
            trainer.train()
            for step in transitions(witnessed_rounds(STEPS)):
                nobody_goes_on = np.asarray(not step["next_there"].any())
                team_step = {"rewards": step["rewards"].sum(), "terminated": nobody_goes_on}
                replay.add(**{**step, **team_step})
            for _ in range(PER_ROUND):
                number += 1
                qmix.update(team, target, optimiser, replay.sample(16, rng), config, number)
            assert distance(pairs) < CLOSE
            assert distance(slow) < CLOSE
        assert learner.counters["num_updates"] == number == 24
        assert not replay.columns["next_there"].all()
        assert moment_distance(pairs, learner, optimiser) < CLOSE


class _Sizes(qmix.Exits):
    """The sizes of the env that is played here."""

    num_agents, obs_size, num_actions, state_size = AGENTS, WIDTH, OPTIONS, AGENTS * WIDTH + 1


def mixer_layers(ours: Any, theirs: qmix.Mixer) -> list[Pair]:
    pairs: list[Pair] = []
    both = [(ours.w1, theirs.w1), (ours.b1, theirs.b1), (ours.w2, theirs.w2)]
    for mine, other in [*both, (ours.v_hidden, theirs.v[0]), (ours.v, theirs.v[2])]:
        pairs += [(mine.weight, other.weight), (mine.bias, other.bias)]
    return pairs


def test_maddpg_moves_actors_critics_and_their_slow_copies_as_the_page_that_students_read() -> None:
    config = maddpg.Config(**SAME_REPLAY, tau=0.1, actor_reg=0.05)
    names = ["first", "second"]
    who = {"policies": {name: {} for name in names}, "policy_mapping_fn": {"agent_0": "first", "agent_1": "second"}}
    env = {"agents": 2, "box": True, "together": True}
    with run_of("maddpg", env, {**REPLAYED, "tau": 0.1, "actor_reg": 0.05}, multiagent=who) as trainer:
        learner = trainer.learners[0]
        assert isinstance(learner, MaddpgLearner)
        agents = [maddpg.Agent(i, 2, WIDTH, 2, config) for i in range(2)]
        pupils = [learner.actor_critics[name] for name in names]
        actors, critics, slow = [], [], []
        for pupil, agent in zip(pupils, agents, strict=True):
            actors.append(layers(pupil.actor.model, agent.actor))
            critics.append(layers(pupil.critics.networks[0], agent.critic))
            slow += layers(pupil.target_actor.model, agent.slow_actor)
            slow += layers(pupil.target_critics.networks[0], agent.slow_critic)
        everything = [pair for pairs in (*actors, *critics, slow) for pair in pairs]
        copy_weights(everything)
        rng = deepcopy(learner.rng)
        for _ in range(ROUNDS):
            trainer.train()
            for step in transitions(witnessed_rounds(STEPS)):
                for i, agent in enumerate(agents):
                    own = {name: step[name][i] for name in ("rewards", "terminated")}
                    agent.replay.add(**{name: step[name] for name in ("obs", "actions", "next_obs")}, **own)
            for _ in range(PER_ROUND):
                for agent in agents:
                    maddpg.update(agent, agents, agent.replay.sample(16, rng), config)
            assert distance(everything) < CLOSE
        assert learner.counters["num_updates"] == 2 * 24
        for i, agent in enumerate(agents):
            assert moment_distance(actors[i], learner, agent.actor_optimiser) < CLOSE
            assert moment_distance(critics[i], learner, agent.critic_optimiser) < CLOSE


# -- the pages themselves ----------------------------------------------------------------------------------------------

PAGES = [ppo, mappo, dqn, qmix, maddpg]
TINY: dict[str, Any] = {"total_steps": 128, "num_envs": 2, "hidden": (8,)}
SHORT: dict[Any, dict[str, Any]] = {
    ppo: {**TINY, "steps": 16},
    mappo: {**TINY, "steps": 16},
    dqn: {"total_steps": 200, "learning_starts": 100, "hidden": (8,)},
    qmix: {**TINY, "learning_starts": 64},
    maddpg: {**TINY, "learning_starts": 64},
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.__name__.rpartition(".")[2])
def test_a_page_has_at_most_300_lines_knows_nothing_of_marl_and_runs(page: Any) -> None:
    text = Path(page.__file__).read_text("utf-8")
    assert len(text.splitlines()) <= 300
    roots = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            roots |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            roots.add(str(node.module).partition(".")[0])
    assert roots <= {"__future__", "copy", "dataclasses", "gymnasium", "numpy", "sys", "torch"}
    assert np.isfinite(page.main(0, page.Config(**SHORT[page])))


@pytest.mark.slow
def test_the_page_of_dqn_balances_the_pole() -> None:
    assert dqn.main(1) >= 195
