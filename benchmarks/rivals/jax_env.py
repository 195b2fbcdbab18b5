"""JaxMARL's envs alone: so many copies, stepped by one compiled loop with actions that were drawn beforehand.

    python jax_env.py '{"env": "MPE_simple_spread_v3", "copies": 256, "steps": 200}'

What the last step showed is part of the result, so that the compiler leaves nothing out; envs start anew by themselves.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import jax
import jax.numpy as jnp
from clock import answer


def made(name: str, layout: str | None) -> Any:
    import jaxmarl

    if layout is None:
        return jaxmarl.make(name)
    from jaxmarl.environments.overcooked import overcooked_layouts

    return jaxmarl.make(name, layout=overcooked_layouts[layout])


def main() -> None:
    warnings.simplefilter("ignore")
    work = json.loads(sys.argv[1])
    env = made(work["env"], work.get("layout"))
    copies, steps = work["copies"], work["steps"]

    def step(carry: Any, drawn: Any) -> Any:
        key, state, paid, _ = carry
        key, own = jax.random.split(key)
        obs, state, rewards, _, infos = jax.vmap(env.step)(jax.random.split(own, copies), state, drawn)
        shaped = infos.get("shaped_reward", {})
        paid += sum(column.sum() for column in [*rewards.values(), *shaped.values()])
        return (key, state, paid, obs), None

    played = jax.jit(lambda carry, drawn: jax.lax.scan(step, carry, drawn)[0])
    keys = jax.random.split(jax.random.PRNGKey(0), len(env.agents) + 2)
    actions = {}
    for agent, key in zip(env.agents, keys, strict=False):
        actions[agent] = jax.random.randint(key, (steps, copies), 0, env.action_space(agent).n)
    obs, state = jax.vmap(env.reset)(jax.random.split(keys[-1], copies))
    now = [(keys[-2], state, jnp.float32(0.0), obs)]

    def play() -> dict[str, float]:
        now[0] = jax.block_until_ready(played(now[0], actions))
        return {"count": copies * steps}

    answer(play, "jax", "jaxmarl", "numpy")


if __name__ == "__main__":
    main()
