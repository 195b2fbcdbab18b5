"""Policies to the Hugging Face Hub and back, by its real package, against a server on loopback; and to a local folder."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

import marl
from marl import Trainer
from marl.data.seal import sealed
from marl.errors import CheckpointError, ConfigError, HubError, ResourceError
from marl.play.export import read_exported
from marl.sharing.bundle import is_part, parts_of
from tests.command import marl as command
from tests.sharing.stub_server import TOKEN, Hub, stub_hub

KEYS: dict[str, Any] = {
    "name": "secret_name",
    "env": "matrix_game",
    "env_config": {"game": "rock_paper_scissors"},
    "algo": {"name": "ppo", "train_batch_size": 32, "sgd_minibatch_size": 32, "num_sgd_iter": 1, "lr": 0.01},
    "multiagent": {"policies": ["a", "b"], "policy_mapping_fn": {"player_0": "a", "player_1": "b"}},
    "model": {"fcnet_hiddens": [4]},
    "num_envs_per_worker": 4,
    "checkpoint_freq": 0,
    "evaluation": {"interval": 1, "episodes": 2},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("hub") / "run"
    recordings = place.parent / "recordings"
    with Trainer("ppo", config={**KEYS, "output": str(recordings)}, directory=place) as trainer:
        trainer.train()
        trainer.train()
        trainer.save()
    return place


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    with stub_hub() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        yield server


def weights_of(folder: Path, name: str) -> dict[str, Any]:
    return dict(read_exported(folder, name).weights)


# -- the hub -------------------------------------------------------------------------------------------------------


def test_what_was_pushed_is_pulled_to_the_last_bit_and_plays(run: Path, hub: Hub, tmp_path: Path) -> None:
    assert marl.push_to_hub(run, "me/rps", private=True) == f"{hub.address}/me/rps"
    assert hub.private == {"me/rps": True}
    expected = {"README.md"} | {f"{name}/{file}" for name in "ab" for file in ("policy.json", "weights.safetensors")}
    assert set(hub.files("me/rps")) == expected
    folder = marl.pull_from_hub("me/rps", tmp_path / "mine")
    assert {part.as_posix() for part in parts_of(folder)} == expected
    assert {file.name for file in folder.iterdir()} == {"README.md", "a", "b"}  # no traces of the download
    with Trainer.from_checkpoint(run, output=None) as trainer:
        for name in "ab":
            there = weights_of(folder, name)
            for key, array in trainer.get_weights()[name].items():
                np.testing.assert_array_equal(there[key], array)
    assert marl.load_policy(f"{folder}#a").compute_action(np.zeros(1, np.float32)) in range(3)


def test_a_second_push_takes_away_policies_that_it_does_not_bring_and_leaves_other_files(run: Path, hub: Hub) -> None:
    marl.push_to_hub(run, "me/rps")
    hub.files("me/rps")["LICENSE"] = b"free"
    marl.push_to_hub(run, "me/rps", policies=["b"])
    assert set(hub.files("me/rps")) == {"README.md", "LICENSE", "b/policy.json", "b/weights.safetensors"}


def test_only_policies_and_their_card_are_fetched(run: Path, hub: Hub, tmp_path: Path) -> None:
    marl.push_to_hub(run, "me/rps")
    hub.files("me/rps").update(
        {"setup.py": b"boom", "a/model.pkl": b"boom", "a/b/policy.json": b"{}", "../up/policy.json": b"x"}
    )
    folder = marl.pull_from_hub("me/rps", tmp_path / "mine")
    fetched = [asked for asked in hub.asked if asked.startswith("GET") and "/resolve/" in asked]
    assert len(fetched) == 5
    assert not [asked for asked in fetched if "setup.py" in asked or "pkl" in asked or "up" in asked]
    assert {file.name for file in folder.rglob("*") if file.is_file()} == {
        "README.md",
        "policy.json",
        "weights.safetensors",
    }


@pytest.mark.parametrize(
    ("file", "ok"),
    [
        ("README.md", True), ("policy.json", True), ("a/weights.safetensors", True), ("wolf%5B%2A%5D/policy.json", True),
        (".x/policy.json", True), ("../policy.json", False), ("./policy.json", False), ("a/b/policy.json", False), ("/policy.json", False),
        ("a\\policy.json", False), ("a/policy.jsonx", False), ("a/policy.onnx", False), ("a/README.md", False),
    ],
)  # fmt: skip
def test_what_belongs_to_a_bundle_never_lies_outside_of_its_folder(file: str, ok: bool) -> None:
    assert is_part(file) is ok


def test_damaged_and_forged_files_leave_nothing_behind(run: Path, hub: Hub, tmp_path: Path) -> None:
    marl.push_to_hub(run, "me/rps")
    files = hub.files("me/rps")
    good = dict(files)
    target = tmp_path / "mine"
    files["a/weights.safetensors"] = good["b/weights.safetensors"]
    with pytest.raises(CheckpointError, match=r"weights\.safetensors is not what policy\.json was written for"):
        marl.pull_from_hub("me/rps", target)
    about = json.loads(good["a/policy.json"])
    about["recipe"]["model"]["custom_model"] = "os:system"
    about.pop("seal", None)
    files.update(good)
    files["a/policy.json"] = json.dumps(sealed(about)).encode()
    with pytest.raises(ConfigError, match="'os', which was not allowed"):
        marl.pull_from_hub("me/rps", target)
    files["a/policy.json"] = b"[" * 100_000
    with pytest.raises(CheckpointError, match="cannot be read"):
        marl.pull_from_hub("me/rps", target)
    for name in list(files):
        if name != "README.md":
            del files[name]
    with pytest.raises(HubError, match="me/rps holds no policy of marl"):
        marl.pull_from_hub("me/rps", target)
    assert list(tmp_path.iterdir()) == []


def test_what_the_server_says_ends_with_a_sentence_and_code_2(
    run: Path, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = command("pull", "me/nothing", tmp_path / "mine")
    assert done.code == 2
    assert "error: cannot pull from me/nothing: RepositoryNotFoundError" in done.err
    assert "Traceback" not in done.err
    monkeypatch.setenv("HF_TOKEN", "hf_somebody_else")
    done = command("push", run, "me/rps")
    assert done.code == 2
    assert "error: cannot push to me/rps: HfHubHTTPError" in done.err
    assert hub.commits == {}


def test_a_repository_larger_than_the_disk_is_not_begun(
    run: Path, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marl.push_to_hub(run, "me/rps")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1))
    with pytest.raises(HubError, match="and 1 are free"):
        marl.pull_from_hub("me/rps", tmp_path / "mine")
    assert not [asked for asked in hub.asked if "/resolve/" in asked]


# -- a local folder ------------------------------------------------------------------------------------------------


def test_a_local_folder_needs_neither_package_nor_network(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.chdir(tmp_path)
    shelf = tmp_path / "shelf"
    assert command("push", run, "me/rps", "--local", shelf, "--license", "mit").out == f"pushed: {shelf}/me/rps\n"
    (shelf / "me/rps/notes.txt").write_text("mine")
    assert command("push", run, "me/rps", "--local", shelf, "--policy", "b").code == 0
    assert command("pull", "me/rps", "--local", shelf).out == "pulled: rps\n"
    assert sorted(file.relative_to(tmp_path).as_posix() for file in (tmp_path / "rps").rglob("*")) == [
        "rps/README.md", "rps/b", "rps/b/policy.json", "rps/b/weights.safetensors",
    ]  # fmt: skip
    assert sorted(file.name for file in (shelf / "me/rps").iterdir()) == ["README.md", "b", "notes.txt"]
    again, other = command("pull", "me/rps", "--local", shelf), command("pull", "me/other", "--local", shelf)
    assert (again.code, other.code) == (2, 2)
    assert "rps is there already" in again.err
    assert "Push to it first: marl push RUN me/other" in other.err
    with pytest.raises(ResourceError, match=r'pip install "marl\[hub\]"; --local FOLDER works without it'):
        marl.push_to_hub(run, "me/rps")


def test_a_pulled_folder_is_played_by_the_command_on_its_card(run: Path, tmp_path: Path) -> None:
    marl.push_to_hub(run, "me/rps", local=tmp_path / "shelf")
    folder = marl.pull_from_hub("me/rps", tmp_path / "rps", local=tmp_path / "shelf")
    (line,) = (one for one in (folder / "README.md").read_text("utf-8").splitlines() if one.startswith("marl rollout"))
    _, _, _, *options = shlex.split(line)
    done = command("rollout", folder, *options, "--episodes", 2)
    assert done.code == 0
    assert "2 env steps, 2 episodes" in done.out


def test_an_empty_folder_is_filled_whether_one_stands_in_it_or_links_to_it(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = tmp_path / "shelf"
    marl.push_to_hub(run, "me/rps", local=shelf)
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("there")
    monkeypatch.chdir(tmp_path / "here")
    for target in (".", "../link"):
        assert command("pull", "me/rps", target, "--local", shelf).code == 0
        assert sorted(file.name for file in Path(target).iterdir()) == ["README.md", "a", "b"]
    assert (tmp_path / "link").is_symlink()


def test_links_out_of_a_local_folder_are_followed_neither_way(run: Path, tmp_path: Path) -> None:
    secret, shelf = tmp_path / "secret", tmp_path / "shelf"
    secret.write_text("mine")
    place = Path(marl.push_to_hub(run, "me/rps", local=shelf))
    (place / "README.md").unlink()
    (place / "README.md").symlink_to(secret)
    with pytest.raises(HubError, match=r"README.md is a link that leads out of"):
        marl.pull_from_hub("me/rps", tmp_path / "x", local=shelf)
    with pytest.raises(HubError, match=r"README.md is a link that leads out of"):
        marl.push_to_hub(run, "me/rps", local=shelf)
    assert (place / "a" / "policy.json").is_file(), "nothing was taken away"
    (place / "README.md").unlink()
    shutil.rmtree(place / "a")
    (tmp_path / "elsewhere").mkdir()
    (place / "a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HubError, match="is a link that leads out of"):
        marl.push_to_hub(run, "me/rps", local=shelf)
    assert secret.read_text() == "mine"
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert not (tmp_path / "x").exists()


def test_what_is_pulled_was_verified_to_the_last_file(run: Path, tmp_path: Path) -> None:
    def refused(message: str, **changes: bytes | None) -> None:
        shutil.rmtree(tmp_path / "shelf", ignore_errors=True)
        place = Path(marl.push_to_hub(run, "me/rps", local=tmp_path / "shelf"))
        first = {file.name: file.read_bytes() for file in (place / "a").iterdir()}
        for file, content in changes.items():
            (place / file).parent.mkdir(exist_ok=True)
            if content is None:
                (place / file).unlink()
            else:
                (place / file).write_bytes(content or first[Path(file).name])
        with pytest.raises(HubError, match=message):
            marl.pull_from_hub("me/rps", tmp_path / "x", local=tmp_path / "shelf")
        assert sorted(file.name for file in tmp_path.iterdir()) == ["shelf"]

    again = dict.fromkeys(("policy.json", "weights.safetensors"), b"")  # those of the policy a
    refused("a policy and folders with policies", **again)
    refused("two policies that are called 'a'", **{f"c/{file}": content for file, content in again.items()})
    refused("lacks c/policy.json", **{"c/weights.safetensors": b"anything"})
    refused("lacks b/weights.safetensors", **{"b/weights.safetensors": None})
    refused("cannot be taken: .*README.md has 2,000,000 bytes", **{"README.md": b"x" * 2_000_000})


@pytest.mark.parametrize("repo", ["", "../x", "a/b/c", "a/..", "-x", "a b", "/etc", "x/../y"])
def test_the_name_of_a_repository_is_never_a_way_out(repo: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not the name of a repository"):
        marl.pull_from_hub(repo, tmp_path / "x", local=tmp_path)


# -- the card ------------------------------------------------------------------------------------------------------


def card_of(run: Path, place: Path, **more: Any) -> tuple[dict[str, Any], str]:
    folder = Path(marl.push_to_hub(run, "me/rps", local=place, **more))
    _, head, text = (folder / "README.md").read_text("utf-8").split("---\n", 2)
    return yaml.safe_load(head), text


def test_a_card_tells_algorithm_env_keys_and_the_last_result_beside_the_best(run: Path, tmp_path: Path) -> None:
    from huggingface_hub import ModelCard

    head, text = card_of(run, tmp_path, license="apache-2.0")
    assert head["library_name"] == "marl"
    assert head["license"] == "apache-2.0"
    assert {"reinforcement-learning", "multi-agent", "ppo", "matrix_game"} <= set(head["tags"])
    written = [json.loads(line) for line in (run / "result.json").read_text("utf-8").splitlines()]
    trained = [one["episode_reward_mean"] for one in written]
    (block,) = head["model-index"]
    (found,) = block["results"]
    assert found["dataset"]["name"] == "matrix_game"
    values = {metric["name"]: metric["value"] for metric in found["metrics"]}
    assert values["episode_reward_mean, last"] == pytest.approx(trained[-1], abs=1e-4)
    assert values["episode_reward_mean, best"] == pytest.approx(max(trained), abs=1e-4)
    assert "evaluation.episode_reward_mean, best" in values
    assert "The weights are those of iteration 2 (`checkpoint_000002`)" in text
    keys = yaml.safe_load(text.split("```yaml\n")[1].split("```")[0])
    assert keys["algo"] == KEYS["algo"]  # and nothing that is a default
    assert keys["model"] == {"fcnet_hiddens": [4]}
    assert keys["env_config"] == {"game": "rock_paper_scissors"}
    for private in ("recordings", "secret_name", str(run.parent)):
        assert private not in text
    # As the Hub reads it.
    card = ModelCard.load(tmp_path / "me" / "rps" / "README.md")
    assert card.data.library_name == "marl"
    assert len(card.data.eval_results) == 4


def test_a_card_tells_of_the_metric_that_was_chosen_and_less_may_be_better(run: Path, tmp_path: Path) -> None:
    from marl.sharing.card import Facts, measured, told_keys

    def of(metric: str, results: list[dict[str, Any]]) -> tuple[str, float, float, int]:
        scenario = {**KEYS, "evaluation": {"metric": metric}}
        return tuple(measured(Facts(scenario, results, [], "", 1, "me/rps"))[0])

    values = {10: 3.0, 20: 1.0, 30: 2.0, 40: float("nan")}
    rewards = [{"timesteps_total": at, "evaluation": {"policy_reward_mean": {"a": v}}} for at, v in values.items()]
    assert of("policy_reward_mean.a", rewards) == ("evaluation.policy_reward_mean.a", 2.0, 3.0, 10)
    gaps = [{"timesteps_total": at, "evaluation": {"exploitability": {"nash_conv": v}}} for at, v in values.items()]
    assert of("exploitability.nash_conv", gaps) == ("evaluation.exploitability.nash_conv", 2.0, 1.0, 20)
    hidden = {"rom_path": "/home/me/x", "game": "y"}
    told = told_keys({**KEYS, "env_config": hidden, "evaluation": {"env_config": hidden}})
    assert told["env_config"] == told["evaluation"]["env_config"] == {"game": "y"}


def test_names_on_a_card_are_texts_whatever_they_hold(run: Path, tmp_path: Path) -> None:
    from marl.sharing.card import Facts, model_card

    hostile = "x\n---\n<script>alert(1)</script> | `y` ```"
    with_name = {**KEYS, "env": hostile, "env_config": {"a": hostile}}
    folder = Path(marl.push_to_hub(run, "me/rps", local=tmp_path))
    text = model_card(Facts(with_name, [], [read_exported(folder, "a")], hostile, 1, "me/rps"))
    lines = text.split("\n")
    _, end = (number for number, line in enumerate(lines) if line == "---")
    assert yaml.safe_load("\n".join(lines[1:end]))["library_name"] == "marl"
    outside = [line for line in lines[end:] if line.startswith("#")]
    assert not [line for line in outside if "<script>" in line]
    assert text.count("```") == 6  # three blocks, and none that a name has opened or closed
    assert "The run has no results." in text
