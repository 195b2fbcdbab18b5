"""A training function of one's own under Ray Tune: learn fast first, then carefully from where that ended.

python examples/custom_train_fn.py
"""

from __future__ import annotations

import sys
from typing import Any

import marl
from marl.tune import Reporter, Tuning, grid_search


def two_phases(config: dict[str, Any], reporter: Reporter) -> None:
    keys = {"env": "two_step_game", "train_batch_size": 200, "sgd_minibatch_size": 100, "evaluation": {"interval": 0}}
    with marl.Trainer("ppo", config={**keys, "lr": config["first_lr"]}) as fast:
        for _ in range(config["iterations"]):
            reporter(**fast.train(), phase=1)
        handed_over = fast.save(reporter.directory / "after_phase_1")
    with marl.Trainer("ppo", config={**keys, "lr": config["first_lr"] / 10}) as careful:
        careful.restore(handed_over)
        for _ in range(config["iterations"]):
            reporter(**careful.train(), phase=2)
        reporter.save(careful)


def main(iterations: int = 10, local_dir: str | None = None) -> Tuning:
    found = marl.tune.run(
        two_phases,
        config={"first_lr": grid_search([0.03, 0.003]), "iterations": iterations},
        metric="episode_reward_mean",
        local_dir=local_dir,
    )
    for trial in found.trials:
        print(f"first_lr {trial.params['first_lr']:g}: reward {trial.score} after {len(trial.results)} iterations")
    print(f"best: {found.best_checkpoint}")
    return found


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
