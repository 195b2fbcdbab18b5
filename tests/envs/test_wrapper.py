"""The base class of wrappers: it changes nothing, offers what the env inside offers, and lets a wrapper keep a memory."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import pytest

import marl
from marl.envs.base import EnvContext, MultiAgentEnv, StepResult
from marl.envs.tasks import same_task as equal
from marl.envs.wrapper import EnvWrapper
from marl.envs.wrappers.partial import KeepEntries
from tests.envs.small_hierarchies import corridor, two_levels
from tests.envs.taught import Taught, TaughtWithState

OPTIONAL = ("get_state", "set_state", "set_task", "set_phase", "chance_outcomes")


class Doubled(EnvWrapper):
    """Pays twice as much, and counts in its state what it has paid."""

    def __init__(self, env: MultiAgentEnv, factor: float = 2.0) -> None:
        super().__init__(env)
        self.factor, self.total = factor, 0.0

    def step(self, actions: Any) -> StepResult:
        result = StepResult(*self.env.step(actions))
        rewards = {agent: self.factor * reward for agent, reward in result.rewards.items()}
        self.total += sum(rewards.values())
        return result._replace(rewards=rewards)

    def pack_state(self, inside: Any) -> Any:
        return {"env": inside, "total": self.total}

    def unpack_state(self, state: Any) -> Any:
        self.total = state["total"]
        return state["env"]


def everything(env: MultiAgentEnv, agents: tuple[str, ...]) -> list[Any]:
    """What all methods of an env return in an episode with fixed actions."""
    found: list[Any] = [env.possible_agents, dict(env.max_agents)]
    found += [env.observation_space(agent) for agent in agents] + [env.action_space(agent) for agent in agents]
    found += [env.reset(seed=3, options={}), env.state(), env.render()]
    for _ in range(2):
        found += [tuple(env.step(dict.fromkeys(agents, 1))), env.state(), env.render()]
    return found


def test_every_method_of_an_env_is_handed_on_by_the_base_class() -> None:
    methods = dict(inspect.getmembers(MultiAgentEnv, inspect.isfunction))
    own = {name for name in methods if vars(EnvWrapper).get(name) is not None}
    assert {name for name in methods if not name.startswith("_")} - own == {"with_agent_groups"}  # which wraps


@pytest.mark.parametrize("name", ["two_step_game", "fast:simple_spread"])
def test_a_wrapper_that_overrides_nothing_is_transparent(name: str) -> None:
    plain, wrapped = marl.make_env(name), EnvWrapper(marl.make_env(name))
    agents = plain.possible_agents
    assert equal(everything(plain, agents), everything(wrapped, agents))
    wrapped.close()


def test_a_wrapper_has_the_optional_methods_that_the_env_inside_has_and_no_others() -> None:
    envs = [
        Taught(EnvContext()),
        TaughtWithState(EnvContext()),
        marl.make_env("kuhn_poker"),
        marl.make_env("CartPole-v1"),
    ]
    offered = []
    for env in envs:
        offered.append([name for name in OPTIONAL if hasattr(env, name)])
        for wrapped in (EnvWrapper(env), Doubled(env), EnvWrapper(EnvWrapper(env))):
            assert [name for name in OPTIONAL if hasattr(wrapped, name)] == offered[-1]
    assert len({tuple(names) for names in offered}) == len(envs)  # each of them offers something else


def test_tasks_and_states_go_through_to_the_env_inside() -> None:
    inside = TaughtWithState(EnvContext())
    env: Any = EnvWrapper(Doubled(inside))
    env.reset(seed=0)
    env.set_task(3.0)
    assert env.step({"a_0": 0, "a_1": 0}).rewards == {"a_0": 6.0, "a_1": 6.0}
    state = copy.deepcopy(env.get_state())
    after = env.step({"a_0": 0, "a_1": 0})
    assert env.env.total == 24.0
    env.set_state(state)
    assert env.env.total == 12.0
    assert equal(tuple(env.step({"a_0": 0, "a_1": 0})), tuple(after))


def test_a_wrapper_may_have_tasks_of_its_own() -> None:
    class Paying(EnvWrapper):
        def set_task(self, task: float) -> None:
            self.env.set_task(10 * task)  # type: ignore[attr-defined]

    inside = Taught(EnvContext())
    Paying(inside).set_task(2.0)
    assert inside.task == 20.0


def test_a_wrapper_can_be_copied() -> None:
    env: Any = Doubled(TaughtWithState(EnvContext()))
    env.reset(seed=0)
    other = copy.deepcopy(env)
    other.step({"a_0": 0, "a_1": 0})
    assert (env.env.t, other.env.t) == (0, 1)
    assert other.get_state()["env"] != env.get_state()["env"]


@pytest.mark.parametrize("env", ["pettingzoo:mpe2/simple_spread_v3", f"{TaughtWithState.__module__}:TaughtWithState"])
def test_training_in_a_wrapped_env_is_training_in_the_env(env: str) -> None:
    config = {
        "env_config": {"max_cycles": 5} if "pettingzoo" in env else {}, "train_batch_size": 40, "sgd_minibatch_size": 20,
        "fcnet_hiddens": [8], "num_envs_per_worker": 2, "evaluation": {"interval": 0}, "seed": 5,
    }  # fmt: skip
    found = []
    for wrappers in ([], ["marl.envs.wrapper:EnvWrapper"]):
        with marl.Trainer("ppo", env=env, config={**config, "wrappers": wrappers}) as trainer:
            for _ in range(2):
                trainer.train()
            found.append({policy: dict(weights) for policy, weights in trainer.get_weights().items()})
    assert equal(found[0], found[1])


def test_states_of_wrapped_envs_have_the_names_that_checkpoints_know() -> None:
    """Written down as older files hold them: the env's own state below ``env`` or ``base``, or as it is."""
    base: Any = marl.make_env("two_step_game")
    base.reset(seed=0)
    inside = base.get_state()

    joined: Any = marl.make_env("two_step_game").with_agent_groups({"team": ["agent_*"]})
    joined.reset(seed=0)
    joined.set_state({"env": inside, "alive": ["agent_0", "agent_1"], "asked": ["agent_0", "agent_1"]})
    assert set(joined.get_state()) == {"env", "alive", "asked"}
    assert equal(joined.get_state()["env"], inside)

    kept: Any = KeepEntries(marl.make_env("fast:simple_spread"), [0, 1])
    kept.reset(seed=0)
    assert equal(kept.get_state(), kept.env.get_state())

    commanded: Any = two_levels(corridor())
    commanded.reset(seed=0)
    state = commanded.get_state()
    assert set(state) == {"base", "views", "masks", "alive", "asked", "state", "posts"}
    assert equal(state["base"], commanded.base.get_state())
