"""``python -m siege.ask DIR``: load each exported policy of a folder and ask it what to do, as a program of a user would."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import marl
from marl.errors import UserError
from marl.play.export import exported_folders


def main(folder: str) -> int:
    try:
        found = exported_folders(Path(folder))
        if not found:
            raise UserError(f"there is no exported policy in {folder}")
        for name in found:
            actor = marl.load_policy(f"{folder}#{name}")
            space = actor.policy.kind.observation_space
            space.seed(0)
            agent = actor.policy.kind.agents[0]
            actions = [actor.compute_action(space.sample(), agent=agent) for _ in range(5)]
            print(name, np.array(actions).tolist())
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
