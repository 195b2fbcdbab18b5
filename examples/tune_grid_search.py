"""Which step size is best? One run per value, side by side on Ray Tune, compared by their evaluations.

python examples/tune_grid_search.py
"""

from __future__ import annotations

import sys

import marl
from marl.tune import Tuning, grid_search


def main(iterations: int = 30, local_dir: str | None = None) -> Tuning:
    found = marl.tune.run(
        "ppo",
        env="traffic",
        config={
            "lr": grid_search([0.01, 0.001, 0.0001]),
            "num_envs_per_worker": 8,
            "train_batch_size": 1_600,
            "sgd_minibatch_size": 400,
            "evaluation": {"interval": 5, "episodes": 10},
        },
        stop={"training_iteration": iterations},
        local_dir=local_dir,
    )
    for trial in found.trials:
        print(f"lr {trial.params['lr']:<7g} {trial.status} after {len(trial.results)} iterations, score {trial.score}")
    best = found.best_trial
    print(f"best: lr {best.params['lr']:g}. Watch it: marl rollout {best.checkpoint}")
    return found


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
