"""Every algorithm keeps what all of them promise, and the checker notices when one does not."""

from __future__ import annotations

import numpy as np
import pytest
from rich.console import Console

import marl
from marl.algos.presets import ALGOS
from marl.envs.check import check_env
from marl.errors import ConfigError
from marl.policies.build import ACTS
from marl.testing.check_learner import ENV, check_learner
from marl.testing.sign_env import Signs, right_choice, right_coordinates
from tests.algos.broken_learners import Careless, preset

TABLES = {"monte_carlo", "q_learning", "sarsa"}
OF_VALUES = {"apex", "dqn", "iql", "hysteretic", "nfsp", "noisy_dqn", "qmix", "rainbow", "rnad", "softq", "vdn"}
CHOICES_ONLY = TABLES | OF_VALUES | {"coma", "deep_cfr", "escher"}
NOT_FROM_GRIDS = {"deep_cfr", "es", "escher"}
PLAYED_ALONE = {"monte_carlo", "sarsa"}  # no value of an action that was not played counts in their updates
ASKED_FOR_GRIDS = ("order of the copies", "seeds", "obeys masks while learning", "agents that are absent")
WITH_COPIES = OF_VALUES | {"apex_ddpg", "ddpg", "maddpg", "masac", "nashpg", "sac", "td3"}


@pytest.mark.slow
@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("algo", list(ALGOS))
def test_every_preset_keeps_its_promises_and_refuses_only_what_it_says(algo: str) -> None:
    report = check_learner(algo)
    assert report.failures == []
    assert report.passed
    others = {finding.check: finding.verdict for finding in report.findings if finding.verdict != "passed"}
    expected = {"learns coordinates": "refused"} if algo in CHOICES_ONLY else {}
    expected |= dict.fromkeys(ASKED_FOR_GRIDS, "does not apply") if algo in NOT_FROM_GRIDS else {}
    expected |= {"obeys masks while learning": "does not apply"} if algo in PLAYED_ALONE else {}
    assert others == expected | ({} if algo in WITH_COPIES else {"slow copies": "does not apply"})


BROKEN = {
    "Idle": ("learns choices", "hardly learned"),
    "Forgetful": ("resumes exactly", "differs from one that was not stopped"),
    "Meddling": ("frozen policies", "the frozen policy changed"),
    "Lopsided": ("order of the copies", "gave different"),
    "Exploding": ("policies without rows", "odds of policy 'agent_0' are not finite"),
    "Fragile": ("agents that come and go", "TrainingError: somebody is absent"),
    "Unhurried": ("step sizes", "lr_schedule changed nothing in two iterations"),
    "Unbounded": ("step sizes", "grad_clip changed nothing in two iterations"),
    "Nostalgic": ("slow copies", "did not move in 64 updates"),
    "OldMixer": ("slow copies", "learners/0/mixers/all/target/w1.0.weight began as a copy of"),
    "Moody": ("seeds", "the same seed led to different weights"),
    "Predestined": ("seeds", "two seeds drew the same"),
    "Lawless": ("obeys masks while learning", "the same without the masks of what follows a decision (new_legal)"),
    "Unruly": ("obeys masks while learning", "the same without the masks of decisions (legal)"),
    "Haunted": ("agents that are absent", "agents that had left led to other policies and learners"),
    "Spiritist": ("agents that are absent", "agents that had left led to other policies and learners"),
}
FEW = {"updates_per_step": 1 / 32}
DEFAULTS = {"Haunted": {"critic_sees": "all"}, "Nostalgic": {"mixer": "none"}}
CONFIGS = {"Nostalgic": FEW, "OldMixer": {**FEW, "target_update_every": 2}}


@pytest.mark.parametrize("learner", list(BROKEN))
@pytest.mark.slow
def test_a_learner_that_breaks_a_promise_is_found_out(learner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check, text = BROKEN[learner]
    monkeypatch.setitem(ALGOS._items, learner.lower(), preset(learner, **DEFAULTS.get(learner, {})))
    report = check_learner(learner.lower(), CONFIGS.get(learner), only=[check])
    assert not report.passed
    assert [finding.check for finding in report.findings] == [check]
    assert report[check].verdict == "failed"
    assert text in report[check].text


def test_a_policy_that_ignores_masks_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ACTS, "careless", Careless)
    monkeypatch.setitem(ALGOS._items, "careless", preset("CentralCriticLearner", "careless", "careless"))
    finding = check_learner("careless", only=["obeys masks"])["obeys masks"]
    assert finding.verdict == "failed"
    assert "an action that its mask forbids" in finding.text


def test_a_refusal_before_the_start_is_reported_with_its_reason_and_is_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(ALGOS._items, "choosy", preset("Choosy"))
    report = marl.check_learner("choosy", only=["different spaces", "agents that come and go"])
    assert report.passed
    assert report["agents that come and go"].verdict == "passed"
    assert report["different spaces"].verdict == "refused"
    assert report["different spaces"].text == "ConfigError: all agents must have equal spaces."
    console = Console(record=True, width=120)
    report.print(console)
    assert console.export_text().splitlines()[-1] == "choosy: conforms"


def test_a_check_that_does_not_exist_is_named() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'obeys masks'"):
        check_learner("ppo", only=["obey masks"])


# -- the env -----------------------------------------------------------------------------------------------------

ENVS = [{"masked": True}, {"come_and_go": True}, {"two_kinds": True}, {"actions": "box", "two_kinds": True}]


@pytest.mark.parametrize("keys", ENVS, ids=[" ".join(keys) for keys in ENVS])
def test_the_env_of_the_check_keeps_the_contract_of_envs(keys: dict[str, object]) -> None:
    assert check_env(ENV, keys) == []


@pytest.mark.parametrize("keys", [{}, *ENVS], ids=lambda keys: " ".join(keys) or "plain")
def test_perfect_play_earns_what_the_env_calls_best(keys: dict[str, object]) -> None:
    env, rng = Signs(3, keys), np.random.default_rng(0)
    frame, paid = env.reset(np.arange(3), np.array([5, 6, 7])), np.zeros(3)
    play = right_coordinates if keys.get("actions") == "box" else right_choice
    while not frame.over.all():
        frame = env.step([np.array([[play(agent, rng) for agent in env_id] for env_id in obs]) for obs in frame.obs])
        paid += frame.rewards.sum(axis=1)
    assert paid == pytest.approx([env.best] * 3)
    assert env.best == {"come_and_go": 7.0}.get(next(iter(keys), ""), 8.0)
