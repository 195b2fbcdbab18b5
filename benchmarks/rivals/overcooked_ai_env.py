"""overcooked_ai's own env, one copy: random actions drawn beforehand, both cooks' grids encoded at every step.

python overcooked_ai_env.py '{"layout": "cramped_room", "steps": 2000}'
"""

from __future__ import annotations

import json
import random
import sys

from clock import answer
from overcooked_ai_py.mdp.actions import Action
from overcooked_ai_py.mdp.overcooked_env import OvercookedEnv
from overcooked_ai_py.mdp.overcooked_mdp import OvercookedGridworld

NAMES = {
    "coord_ring": "coordination_ring",
    "forced_coord": "forced_coordination",
    "asymm_advantages": "asymmetric_advantages",
}


def main() -> None:
    work = json.loads(sys.argv[1])
    layout = NAMES.get(work["layout"], work["layout"])
    env = OvercookedEnv.from_mdp(OvercookedGridworld.from_layout_name(layout), horizon=400, info_level=0)
    rng = random.Random(0)
    drawn = [(rng.choice(Action.ALL_ACTIONS), rng.choice(Action.ALL_ACTIONS)) for _ in range(work["steps"])]

    def play() -> dict[str, float]:
        for actions in drawn:
            state, _, done, _ = env.step(actions)
            env.lossless_state_encoding_mdp(state)
            if done:
                env.reset()
        return {"count": len(drawn)}

    answer(play, "overcooked_ai", "numpy")


if __name__ == "__main__":
    main()
