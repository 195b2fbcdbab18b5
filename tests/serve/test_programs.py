"""Envs that play by themselves (``marl.ExternalEnv``): in this process, or for clients of a ``PolicyServer``."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import marl
from examples.serve import cartpole_client
from marl.errors import ConfigError, EnvError, UserError
from marl.serve.served import load_served
from marl.serve.server import ServerError
from tests.serve.waiting import wait_until

SCRIPT = Path(__file__).parents[2] / "examples" / "serve" / "external_env_server.py"
SEEN = spaces.Box(0.0, 100.0, (1,), np.float32)
LENGTH = 5
KEYS: dict[str, Any] = {
    "num_workers": 0, "learning_starts": 16, "train_batch_size": 8, "timesteps_per_iteration": 40, "seed": 1,
    "log_sys_usage": False, "fcnet_hiddens": [8],
}  # fmt: skip


class Counting(marl.ExternalEnv):
    """Episodes of five steps; an observation is the number of the step, and action 1 pays."""

    actions: spaces.Space[Any] = spaces.Discrete(2)

    def __init__(self) -> None:
        marl.ExternalEnv.__init__(self, self.actions, SEEN)
        self.taken: list[Any] = []
        self.closed = False

    def run(self) -> None:
        while True:
            self.play()

    def play(self) -> None:
        episode = self.start_episode()
        for t in range(LENGTH):
            action = self.get_action(episode, np.array([t], np.float32))
            self.taken.append(action)
            self.log_returns(episode, float(np.sum(action)), info={"t": t})
        self.end_episode(episode, np.array([LENGTH], np.float32))

    def close(self) -> None:
        self.closed = True


def by(run: Callable[[Any], None], base: type[marl.ExternalEnv] = Counting) -> type[marl.ExternalEnv]:
    """The env with another ``run``."""
    return type("Mine", (base,), {"run": run})


def trainer(env: Any, **keys: Any) -> marl.Trainer:
    return marl.Trainer("dqn", env=env, config={**KEYS, **keys})


def failing(run: Callable[[Any], None], **keys: Any) -> UserError:
    """What a run ends with, and says again."""
    with trainer(by(run), **keys) as one:
        with pytest.raises(UserError) as first:
            one.train()
        with pytest.raises(UserError) as second:
            one.train()
    assert str(first.value) == str(second.value)
    return first.value


def program_of(one: marl.Trainer) -> Any:
    return one.workers.service.program


@contextmanager
def serving(**keys: Any) -> Iterator[tuple[marl.Trainer, str]]:
    """A run whose program serves, and its address."""

    def run(self: marl.ExternalEnv) -> None:
        marl.PolicyServer(self, "127.0.0.1", 0).serve_forever()

    with trainer(by(run), **keys) as one:
        one.workers.serve()
        wait_until(lambda: bool(program_of(one).url))
        yield one, program_of(one).url


# -- in this process ---------------------------------------------------------------------------------------------------


def test_a_program_in_this_process_is_learned_from_and_ends_with_the_run() -> None:
    with trainer(Counting) as one:
        for _ in range(3):
            result = one.train()
        env = program_of(one).env
    assert result["timesteps_total"] >= 120
    assert result["episode_len_mean"] == LENGTH
    rewards = np.array(env.taken[: LENGTH * result["episodes_total"]]).reshape(-1, LENGTH).sum(1)
    assert result["episode_reward_max"] == rewards.max()
    assert env.closed
    assert "marl program" not in [thread.name for thread in threading.enumerate()]


def test_actions_come_as_the_env_takes_them() -> None:
    reach = spaces.Box(-2.0, 2.0, (3,), np.float32)
    env = type("Reaching", (Counting,), {"actions": reach})
    with marl.Trainer("ppo", env=env, config={"train_batch_size": 20, "sgd_minibatch_size": 20}) as one:
        one.train()
        taken = program_of(one).env.taken
    assert all(isinstance(action, np.ndarray) and action.shape == (3,) for action in taken)


def test_several_agents_are_dicts_and_leave_when_they_are_done() -> None:
    class Pair(marl.ExternalMultiAgentEnv):
        def __init__(self) -> None:
            moves = {"left": spaces.Discrete(2), "right": spaces.Discrete(3)}
            marl.ExternalMultiAgentEnv.__init__(self, moves, dict.fromkeys(moves, SEEN))

        def run(self) -> None:
            while True:
                episode, seen = self.start_episode(), np.zeros(1, np.float32)
                self.get_action(episode, {"left": seen, "right": seen})
                self.log_returns(episode, {"left": 1.0, "right": 2.0}, multiagent_done_dict={"left": True})
                assert set(self.get_action(episode, {"left": seen, "right": seen})) == {"right"}
                self.log_returns(episode, {"right": 4.0})
                self.end_episode(episode, {"right": seen})

    with trainer(Pair) as one:
        result = one.train()
    assert result["episode_reward_mean"] == 7.0


def test_actions_that_a_program_chose_itself_are_learned_from() -> None:
    def run(self: Any) -> None:
        while True:
            episode = self.start_episode()
            for t in range(LENGTH):
                self.log_action(episode, np.array([t], np.float32), 1)
                self.log_returns(episode, 1.0)
            self.end_episode(episode, np.array([LENGTH], np.float32))

    with trainer(by(run)) as one:
        assert one.train()["episode_reward_min"] == LENGTH


def test_threads_of_a_program_play_as_many_episodes_at_once_as_there_are_copies() -> None:
    def run(self: Any) -> None:
        def play_on() -> None:
            with suppress(marl.PolicyClientError):
                Counting.run(self)

        others = [threading.Thread(target=play_on, daemon=True) for _ in range(2)]
        for thread in others:
            thread.start()
        for thread in others:
            thread.join()

    with trainer(by(run), num_envs_per_worker=2) as one:
        assert one.train()["episode_len_mean"] == LENGTH


def test_evaluations_are_off_unless_there_is_an_env_for_them() -> None:
    with trainer(Counting) as one:
        assert one.scenario.evaluation.interval == 0
        with pytest.raises(EnvError, match=r"Counting plays by itself in its run\(\).*evaluation: \{env: \.\.\.\}"):
            one.evaluate()


def test_a_run_is_saved_and_goes_on_with_the_code_at_hand(tmp_path: Path) -> None:
    marl.register_env("counting", lambda _: Counting())
    with trainer("counting") as one:
        one.train()
        weights = one.get_weights()
        saved = one.save(tmp_path / "saved")
    with marl.Trainer.from_checkpoint(saved) as again:
        for name, array in again.get_weights()["default_policy"].items():
            assert np.array_equal(array, weights["default_policy"][name])
        assert again.train()["training_iteration"] == 2
    with trainer("counting") as third:
        third.restore(saved)
        assert third.train()["training_iteration"] == 2


def test_a_run_directory_of_a_program_has_no_journal(tmp_path: Path) -> None:
    with marl.Trainer(
        "dqn", env=Counting, config={**KEYS, "stop": {"training_iteration": 2}}, directory=tmp_path / "run"
    ) as one:
        assert one.run()["training_iteration"] == 2
    assert not (tmp_path / "run" / "journal").exists()


def test_policies_of_a_program_are_served_afterwards(tmp_path: Path) -> None:
    keys = {**KEYS, "stop": {"training_iteration": 1}}
    with marl.Trainer("dqn", env=f"{__name__}:Counting", config=keys, directory=tmp_path / "run") as one:
        one.run()
    served = load_served(str(tmp_path / "run"), allow=frozenset({"tests"}))
    assert list(served.contract.agents) == ["agent_0"]


# -- a server ----------------------------------------------------------------------------------------------------------


def test_a_program_that_serves_is_played_by_clients_and_returns_with_the_run() -> None:
    with serving() as (one, url):
        results: list[Any] = []

        def train() -> None:
            results.append(one.train())
            # Not by the client: between two rounds it may wait for an action in the middle of an episode.
            one.stop()

        training = threading.Thread(target=train)
        training.start()
        client = marl.PolicyClient(url, patience=0.2)
        with pytest.raises(marl.PolicyClientError):
            while True:
                episode = client.start_episode()
                for t in range(LENGTH):
                    client.log_returns(episode, client.get_action(episode, [t]))
                client.end_episode(episode, [LENGTH])
        training.join()
        program = program_of(one)
    assert results[0]["episode_len_mean"] == LENGTH
    assert not program._thread.is_alive()


def test_strangers_are_not_let_in_without_a_token(tmp_path: Path) -> None:
    refused = failing(lambda self: marl.PolicyServer(self, "0.0.0.0", 0).serve_forever())
    assert isinstance(refused, ConfigError)
    assert "token_file" in str(refused)
    token = tmp_path / "token"

    def run(self: Any) -> None:
        marl.PolicyServer(self, "127.0.0.1", 0, token_file=token).serve_forever()

    with trainer(by(run)) as one:
        one.workers.serve()
        wait_until(lambda: bool(program_of(one).url))
        with pytest.raises(marl.PolicyClientError, match="token"):
            marl.PolicyClient(program_of(one).url).hello()
        assert marl.PolicyClient(program_of(one).url, token=token.read_text().strip()).hello()["training"]


def test_two_servers_on_one_port_or_of_one_env_are_refused() -> None:
    with serving() as (_, url):
        port = int(url.rpartition(":")[2])
        refused = failing(lambda self: marl.PolicyServer(self, "127.0.0.1", port).serve_forever())
        assert isinstance(refused, ServerError)
        assert f"port {port} is in use" in str(refused)

    def twice(self: Any) -> None:
        first = marl.PolicyServer(self, "127.0.0.1", 0)
        threading.Thread(target=first.serve_forever, daemon=True).start()
        wait_until(lambda: bool(self.played_by.url))
        marl.PolicyServer(self, "127.0.0.1", 0).serve_forever()

    assert "one env has one PolicyServer" in str(failing(twice))


# -- mistakes ----------------------------------------------------------------------------------------------------------


def test_a_run_that_returns_at_once_ends_with_what_to_do() -> None:
    told = str(failing(lambda self: None))
    assert "run() of Mine returned after 0 episodes" in told
    assert "endless loop, or serve" in told


def test_a_run_that_returns_later_does_not_hang_either() -> None:
    def run(self: Any) -> None:
        for _ in range(3):
            self.play()

    assert "returned after 3 episodes" in str(failing(run))


def test_a_run_that_raises_ends_the_run_with_the_error_and_its_line() -> None:
    def run(self: Any) -> None:
        self.play()
        raise RuntimeError("the robot is out of reach")

    told = str(failing(run))
    assert "run() of Mine failed: RuntimeError: the robot is out of reach" in told
    assert "test_programs.py" in told


def test_whoever_waits_when_a_program_fails_is_told() -> None:
    heard: list[str] = []

    def wait_in_vain(self: Any) -> None:
        try:
            while True:
                self.play()
        except marl.PolicyClientError as error:
            heard.append(str(error))

    def run(self: Any) -> None:
        threading.Thread(target=wait_in_vain, args=(self,), daemon=True).start()
        wait_until(lambda: len(self.taken) > 10)
        raise RuntimeError("the robot is out of reach")

    failing(run)
    wait_until(lambda: bool(heard))
    assert "the robot is out of reach" in heard[0]


def test_more_episodes_at_once_than_copies_are_refused_instead_of_waited_for() -> None:
    def run(self: Any) -> None:
        self.start_episode()
        self.start_episode()

    told = str(failing(run))
    assert "2 episodes at once" in told
    assert "Set num_envs_per_worker" in told


def test_misuse_of_the_calls_is_told() -> None:
    assert "Call start_episode() first" in str(failing(lambda self: self.log_returns("nobody", 1.0)))
    assert "shape" in str(failing(lambda self: self.get_action(self.start_episode(), [1.0, 2.0])))


class WithoutSpaces(Counting):
    def __init__(self) -> None:
        """It forgets to hand its spaces on."""


class OneSpaceForAll(marl.ExternalMultiAgentEnv):
    def __init__(self) -> None:
        marl.ExternalMultiAgentEnv.__init__(self, spaces.Discrete(2), SEEN)  # type: ignore[arg-type]

    def run(self) -> None:
        """Never called."""


class NotASpace(Counting):
    actions = 2  # type: ignore[assignment]


class Concurrent(Counting):
    def __init__(self) -> None:
        marl.ExternalEnv.__init__(self, self.actions, SEEN, max_concurrent=100)


@pytest.mark.parametrize(
    ("env", "remedy"),
    [
        (WithoutSpaces, r"Begin its __init__ with ExternalEnv.__init__\(self, action_space, observation_space\)"),
        (OneSpaceForAll, "expected a dict from every agent to its space"),
        (NotASpace, "its action_space is 2; expected a space"),
        (Concurrent, "num_envs_per_worker is the number of episodes"),
    ],
)
def test_spaces_that_are_missing_or_wrong_are_told_before_anything_starts(env: Any, remedy: str) -> None:
    with pytest.raises(EnvError, match=remedy):
        trainer(env)


@pytest.mark.parametrize(
    ("keys", "remedy"),
    [
        ({"num_workers": 2}, "with an ExternalEnv clients play.*Drop num_workers"),
        ({"evaluation": {"interval": 10}}, "evaluation.interval is 10.*give evaluation.env"),
        ({"algo": "es"}, "es, which has to play games of its own"),
    ],
)
def test_keys_that_mean_nothing_where_a_program_plays_are_refused(keys: dict[str, Any], remedy: str) -> None:
    few = {"log_sys_usage": False}
    with pytest.raises(ConfigError, match=remedy):
        marl.Trainer(keys.pop("algo", "dqn"), env=Counting, config={**few, **keys})


def test_objects_that_no_run_plays_and_servers_of_something_else_are_told() -> None:
    with pytest.raises(EnvError, match="no run plays this Counting"):
        Counting().start_episode()
    with pytest.raises(EnvError, match="no run plays this Counting"):
        marl.PolicyServer(Counting(), "127.0.0.1", 0).serve_forever()
    with pytest.raises(ConfigError, match=r"PolicyServer: unknown key 'tokenfile'.*token_file"):
        marl.PolicyServer(Counting(), "127.0.0.1", 0, tokenfile="x")
    with pytest.raises(EnvError, match=r"expected the marl\.ExternalEnv"):
        marl.PolicyServer("CartPole-v1", "127.0.0.1", 0)  # type: ignore[arg-type]


def test_a_server_as_a_function_behind_input_is_refused_with_the_lines_to_write() -> None:
    with pytest.raises(ConfigError, match=r'PolicyServerInput.*env="external".*"external": .*9900') as refused:
        marl.Trainer("dqn", env="CartPole-v1", config={"input": lambda ioctx: None})
    assert "marl.PolicyServer(self, address, port).serve_forever()" in str(refused.value)


# -- the documents' script ---------------------------------------------------------------------------------------------


@contextmanager
def documents_server(folder: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    """The script in a process of its own, on a port that is free: its address, and what it has said so far."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    script, out = folder / "server.py", folder / "out.txt"
    script.write_text(SCRIPT.read_text().replace("SERVER_PORT = 9900", f"SERVER_PORT = {port}"))
    with out.open("w") as told:
        process = subprocess.Popen([sys.executable, str(script)], stdout=told, stderr=told, cwd=folder)
        try:
            wait_until(lambda: "Starting policy server" in out.read_text())
            yield f"http://localhost:{port}", out.read_text
        finally:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_the_documents_server_and_client_learn_cartpole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARL_RESULTS_DIR", str(tmp_path / "results"))
    with documents_server(tmp_path) as (url, _):
        reward = cartpole_client.main(["--address", url, "--stop-at-reward", "120", "--episodes", "1500"])
        assert reward >= 120  # of 300 random episodes the best brings about 80
    with documents_server(tmp_path) as (url, told):
        cartpole_client.main(["--address", url, "--no-train", "--episodes", "1"])
        assert "Restoring from checkpoint path" in told()
