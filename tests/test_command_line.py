"""The command line as a person uses it: real processes, exit codes, last lines, Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import run as marl
from tests.processes import start

pytestmark = pytest.mark.slow  # whole runs or processes

ROOT = Path(__file__).parents[1]
SMALL = """
env: two_step_game
algo: {name: ppo, train_batch_size: 64, sgd_minibatch_size: 32, num_sgd_iter: 1}
model: {fcnet_hiddens: [8]}
num_envs_per_worker: 4
evaluation: {interval: 2, episodes: 2}
goal: {evaluation.episode_reward_mean: 99.0}
stop: {training_iteration: 4}
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout.strip().splitlines()[-1]


def results(done: subprocess.CompletedProcess[str]) -> Path:
    assert last_line(done).startswith("results: "), done.stdout + done.stderr
    return Path(last_line(done).removeprefix("results: "))


def test_a_run_ends_with_the_place_of_its_results_and_can_be_played(scenario: Path, tmp_path: Path) -> None:
    done = marl(scenario, "--local-dir", tmp_path / "out", module="marl.run")
    assert done.returncode == 0, done.stderr
    directory = results(done)
    assert directory.parent == tmp_path / "out" / "small"
    lines = [json.loads(line) for line in (directory / "result.json").read_text().splitlines()]
    assert [line["training_iteration"] for line in lines] == [1, 2, 3, 4]
    assert ["evaluation" in line for line in lines] == [False, True, False, True]
    assert "goal missed" in done.stdout
    played = marl("rollout", directory, "--episodes", 3)
    assert played.returncode == 0, played.stderr
    assert sum(line.startswith("episode ") and "reward" in line for line in played.stdout.splitlines()) == 3
    assert "3 episodes" in last_line(played)
    steps = marl("rollout", directory / "checkpoints" / "best" / "manifest.json", "--steps", 7)
    assert "7 env steps, 3 episodes" in last_line(steps)


@pytest.mark.slow
def test_as_test_fails_when_the_goal_is_missed(scenario: Path, tmp_path: Path) -> None:
    assert marl("run", scenario, "--local-dir", tmp_path, "--as-test", "--stop-iters", 2).returncode == 1
    easy = marl(
        "run", scenario, "--local-dir", tmp_path, "--as-test", "--set", "goal={timesteps_total: 64}", "--stop-iters", 1
    )
    assert easy.returncode == 0


@pytest.mark.slow
def test_several_seeds_give_several_runs(scenario: Path, tmp_path: Path) -> None:
    done = marl("run", scenario, "--local-dir", tmp_path, "--seeds", "0..2", "--stop-timesteps", 64)
    assert done.returncode == 0, done.stderr
    names = sorted(p.name for p in (tmp_path / "small").iterdir())
    assert len(names) == 3
    assert [f"seed={i}" in name for i, name in enumerate(sorted(names, key=lambda n: n.split("seed=")[1]))] == [
        True
    ] * 3


@pytest.mark.slow
def test_resume_alone_goes_on_with_other_stop_options(scenario: Path, tmp_path: Path) -> None:
    first = marl("run", scenario, "--local-dir", tmp_path)
    done = marl("run", "--resume", results(first), "--stop-iters", 6)
    assert done.returncode == 0, done.stderr
    assert results(done) == results(first)
    lines = [json.loads(line) for line in (results(done) / "result.json").read_text().splitlines()]
    assert [line["training_iteration"] for line in lines] == [1, 2, 3, 4, 5, 6]
    straight = marl("run", scenario, "--local-dir", tmp_path, "--stop-iters", 6)
    other = [json.loads(line) for line in (results(straight) / "result.json").read_text().splitlines()]
    assert lines[-1]["hist_stats"] == other[-1]["hist_stats"]
    assert lines[-1]["info"] == other[-1]["info"]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_ctrl_c_saves_a_checkpoint_and_says_how_to_go_on(scenario: Path, tmp_path: Path, workers: int) -> None:
    process = start(
        scenario, "--local-dir", tmp_path, "--stop-iters", 100_000, "--num-workers", workers, module="marl.run"
    )
    for line in process.stdout:
        if line.startswith("iter "):
            break
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    assert "Go on with: marl run --resume" in out
    directory = Path(out.strip().splitlines()[-1].removeprefix("results: "))
    assert not (directory / "run.lock").exists()
    resumed = marl("run", "--resume", directory, "--set", "stop={time_total_s: 0}")
    assert resumed.returncode == 0, resumed.stderr


def test_train_without_a_stop_option_says_that_it_trains_until_ctrl_c_and_does(tmp_path: Path) -> None:
    process = start("train", "--run", "DQN", "--env", "CartPole-v1", "--local-dir", tmp_path)
    seen = []
    for line in process.stdout:
        seen.append(line)
        if line.startswith("iter "):
            break
    assert any("it trains until Ctrl-C" in line for line in seen), seen
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    assert "Go on with: marl run --resume" in out


def test_sigusr1_prints_all_stacks(scenario: Path, tmp_path: Path) -> None:
    process = start(scenario, "--local-dir", tmp_path, "--stop-iters", 100_000, module="marl.run")
    for line in process.stdout:
        if line.startswith("iter "):
            break
    process.send_signal(signal.SIGUSR1)
    stacks = ""
    for line in process.stderr:
        stacks += line
        if "marl/run.py" in line:
            break
    assert "Current thread" in stacks
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130  # it had gone on


def test_train_needs_no_file(tmp_path: Path) -> None:
    done = marl(
        "train", "--run", "PPO", "--env", "CartPole-v1", "--stop-iters", 2, "--local-dir", tmp_path,
        "--config", '{"train_batch_size": 100, "fcnet_hiddens": [8], "evaluation": {"interval": 0}}', "--checkpoint-freq", 1,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    directory = results(done)
    assert json.loads((directory / "params.json").read_text())["algo"]["train_batch_size"] == 100
    assert sorted(p.name for p in (directory / "checkpoints").iterdir()) == ["checkpoint_000001", "checkpoint_000002"]


@pytest.mark.parametrize(
    "command", [["--help"], ["run", "--help"], ["train", "--help"], ["list"], ["config", "ppo"], ["config", "--all"]]
)
def test_help_lists_and_keys_are_printed(command: list[str]) -> None:
    done = marl(*command)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) > 5


def corrupt(directory: Path) -> Path:
    newest = sorted((directory / "checkpoints").glob("checkpoint_*"))[-1]
    file = newest / "policies.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))
    return newest


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["run", "{file}", "--set", "num_wrkers=1"], "Did you mean 'num_workers'"),
        (["run", "{file}", "--set", "num_workers=x"], "does not fit"),
        (["run", "{file}", "--set", "env=two_stp_game"], "Did you mean 'two_step_game'"),
        (["run", "{file}", "--set", "algo.name=pppo"], "Did you mean 'ppo'"),
        (["run", "{file}", "--set", "policies_to_train=[x]"], "policies_to_train names 'x'"),
        (["run", "{file}", "--set", "env=traffic", "--set", "policies=[p]", "--set", "policy_mapping_fn=shared"], "same policy 'p'"),
        (["run", "no_such.yaml"], "no scenario file"),
        (["run"], "give a scenario file"),
        (["run", "{file}", "--seed", "1", "--seeds", "0..1"], "cannot be given together"),
        (["run", "{file}", "--seeds", "a..b"], "expected a range"),
        (["run", "--resume", "nowhere"], "nowhere"),
        (["run", "{file}", "--stop-iters", "0"], "--stop-iters"),
        (["run", "{file}", "--set", "goal={evaluation.reward: 1}"], "no result has a field 'evaluation.reward'"),
        (["run", "{file}", "--nonsense"], "nonsense"),
        (["run", "{file}", "--set", "env_config={one_hot: 1}"], "unknown key 'one_hot'"),
        (["run", "{file}", "--set", "stop=5"], "stop = 5"),
        (["run", "{file}", "--set", "policies={p: {algo: 5}}"], "policies.p.algo = 5"),
        (["run", "{tmp}"], "is a folder"),
        (["train", "--run", "ppo"], "no env was given"),
        (["train", "--run", "ppo", "--env", "CartPole-v1", "--stop-iters", "1", "--config", "{lr: 1"], "line 1, column 2"),
        (["config", "pppo"], "Did you mean 'ppo'"),
        (["rollout", "nowhere"], "nowhere"),
        (["frobnicate"], "frobnicate"),
    ],
)  # fmt: skip
def test_a_mistake_ends_with_code_2_one_message_and_no_half_written_run(
    arguments: list[str], text: str, scenario: Path, tmp_path: Path
) -> None:
    arguments = [a.format(file=scenario, tmp=tmp_path) if a in ("{file}", "{tmp}") else a for a in arguments]
    if arguments[0] in ("run", "train"):
        arguments += ["--local-dir", str(tmp_path / "out")]
    done = marl(*arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_corrupted_checkpoint_is_refused_by_name(scenario: Path, tmp_path: Path) -> None:
    directory = results(marl("run", scenario, "--local-dir", tmp_path))
    newest = corrupt(directory)
    for arguments in (["rollout", newest], ["run", "--resume", directory]):
        done = marl(*arguments)
        assert done.returncode == 2
        assert "policies.safetensors" in done.stderr
        assert "Traceback" not in done.stderr


def test_an_env_that_fails_at_its_first_reset_leaves_nothing_behind(scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "broken_world.py").write_text(
        "import gymnasium as gym\n"
        "class Broken(gym.Env):\n"
        "    observation_space = gym.spaces.Discrete(2)\n"
        "    action_space = gym.spaces.Discrete(2)\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        raise RuntimeError('no road')\n"
    )
    out = tmp_path / "out"
    done = marl(scenario, "--set", "env=broken_world:Broken", "--local-dir", out, module="marl.run", cwd=tmp_path)
    assert done.returncode == 2
    assert "no road" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_resume_that_fails_keeps_the_run(scenario: Path, tmp_path: Path) -> None:
    from marl.training.trainer import Trainer

    with Trainer("qmix", env="two_step_game", config={"learning_starts": 8, "timesteps_per_iteration": 40}) as trainer:
        trainer.train()
        trainer.save(tmp_path / "run" / "checkpoints" / "checkpoint_000001")
    done = marl("run", "--resume", tmp_path / "run", "--set", "lr=1e30", "--set", "grad_clip=null", "--stop-iters", 9)
    assert done.returncode == 2
    assert "became" in done.stderr
    assert (tmp_path / "run" / "checkpoints" / "checkpoint_000001" / "manifest.json").exists()


def test_results_that_cannot_be_written_are_said(scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = marl("run", scenario, "--local-dir", tmp_path / "file" / "out")
    assert done.returncode == 2
    assert "Choose another place with --local-dir" in done.stderr
    assert "Traceback" not in done.stderr


def test_importing_marl_imports_nothing_heavy() -> None:
    code = "import sys, marl; print([m for m in ('torch', 'ray', 'scipy', 'networkx', 'matplotlib', 'tensorboard', 'supersuit') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT).stdout.strip() == "[]"
    code = "import sys; from marl import Trainer; t = Trainer('ppo', env='two_step_game', config={'train_batch_size': 8}); t.train(); print('ray' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT).stdout.strip() == "False"
    )


def test_the_command_to_go_on_works_for_an_env_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from pathlib import Path\n\nfrom marl.envs.adapters.copies import GymnasiumCopies\n\n\n"
        "class Mine(GymnasiumCopies):\n"
        "    steps = 0\n\n"
        "    def step(self, actions):\n"
        "        Mine.steps += 1\n"
        "        if Mine.steps == 150 and not Path('mended').exists():\n"
        "            raise SystemExit(3)\n"
        "        return super().step(actions)\n"
    )
    first = marl(
        "train", "--run", "PPO", "--env", "mine:Mine", "--stop-iters", 4, "--checkpoint-freq", 1, "--set", "train_batch_size=64",
        "--set", "sgd_minibatch_size=64", "--set", "evaluation.interval=0", "--local-dir", tmp_path, cwd=tmp_path,
    )  # fmt: skip
    assert first.returncode == 2
    assert "step raised SystemExit: 3 (at " in first.stderr
    command = re.search(r"Go on with: marl (run --resume .*)", first.stderr + first.stdout)
    assert command is not None
    (tmp_path / "mended").touch()
    second = marl(*command[1].split(), "--stop-iters", 4, cwd=tmp_path)
    assert second.returncode == 0, second.stderr


DROPPED = """
import signal, sys, time
from marl.cli.guard import guarded

class Deaf:
    def __del__(self):  # Python drops what is raised here, as some libraries do
        signal.raise_signal(signal.SIGINT)

def work():
    deaf = Deaf()
    del deaf
    for _ in range(300):
        time.sleep(0.01)

guarded(work)
"""


def test_a_ctrl_c_that_a_library_drops_comes_again() -> None:
    done = subprocess.run([sys.executable, "-c", DROPPED], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "stopped\n")
