"""What a program registers before ``marl.tune.run`` is known to its trials, which are other processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from marl.registry import Registry, registrations, take_registrations

PROGRAM = """
    import sys
    import torch
    import marl
    from gymnasium import spaces

    class Mine(marl.MultiAgentEnv):
        possible_agents = ("a", "b")

        def __init__(self, config):
            self.config = config

        def observation_space(self, agent):
            return spaces.Discrete(2)

        action_space = observation_space

        def reset(self, *, seed=None, options=None):
            return {"a": 0, "b": 1}, {}

        def step(self, actions):
            paid = {agent: float(action) for agent, action in actions.items()}
            return marl.StepResult({"a": 0, "b": 1}, paid, {"__all__": True}, {"__all__": False}, {})

    class Shifted(marl.Model):
        def __init__(self, inputs, outputs, config):
            super().__init__(inputs, outputs, config)
            self.layer = torch.nn.Linear(inputs, outputs)

        def forward(self, features, carry):
            return self.layer(features), carry

    class Half(marl.Loss):
        def __call__(self, loss, batch):
            return loss / 2

    def same(env, **keys):
        return env

    class Noted(marl.Callbacks):
        def on_train_result(self, *, result, **_):
            result["noted"] = True

    if __name__ == "__main__":
        from marl.algos.central_critic.learner import CentralCriticLearner

        class Own(CentralCriticLearner):
            like = "ppo"

        marl.register_algorithm("own", Own)
        marl.register_env("mine", lambda config: Mine(config))
        marl.register_model("shifted", Shifted)
        marl.register_wrapper("same", same)
        marl.register_loss("half", Half)
        keys = {
            "env": "mine", "wrappers": ["same"], "custom_model": "shifted", "custom_loss": "half", "callbacks": Noted,
            "train_batch_size": 32, "sgd_minibatch_size": 32, "num_sgd_iter": 1, "lr": marl.tune.grid_search([0.1, 0.01]),
        }
        found = marl.tune.run(
            "own", config=keys, stop={"training_iteration": 1}, local_dir=sys.argv[1], num_cpus=2, verbose=0
        )
        print([(trial.status, trial.error, trial.last_result.get("noted")) for trial in found.trials])
"""


@pytest.mark.ray
@pytest.mark.slow
def test_trials_know_what_the_program_registered(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(dedent(PROGRAM), encoding="utf-8")
    done = subprocess.run([sys.executable, file, tmp_path], capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.strip().splitlines()[-1:] == ["[('TERMINATED', '', True), ('TERMINATED', '', True)]"], (
        done.stderr
    )


def test_what_cannot_be_sent_is_named_and_the_rest_goes(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("ray")
    from marl.tune.ray_trials import sendable

    lock = threading.Lock()

    def locked(config: Any) -> Any:
        return lock

    assert sendable({"env": {"locked": locked, "fine": dict}}) == {"env": {"fine": dict}}
    assert "the env 'locked'" in caplog.text


def test_only_what_came_from_outside_is_told_and_waits_for_rooms_that_are_imported_later() -> None:
    first: Registry[int] = Registry("number of the test")
    first.register("one", 1)
    first.put("Two", 2)
    told = {"number of the test": registrations()["number of the test"], "later number": {"three": 3}}
    assert told["number of the test"] == {"two": 2}
    take_registrations(told)
    later: Registry[int] = Registry("later number")
    later.register("three", 0)  # a program's own thing is not replaced by a built-in one that comes later
    assert later["three"] == 3
    assert later.added == {"three": 3}
