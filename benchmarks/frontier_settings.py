"""What ``frontier.py`` compares: games, methods and their keys.

Schedules are given for a whole run, so they scale with its plies. Payoffs of all games here are 1 and -1, so one setting of a
method serves all of them. ``scenarios/frontier`` has the settings of the benchmark of Rudolph et al. (arXiv 2502.08938): one
actor and one critic for both seats, 8 copies, 3 x 512 tanh.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marl.scenario.load import read_yaml

Keys = dict[str, Any]


@dataclass(frozen=True)
class Game:
    """A game of the table: its env, and how NashConv is computed."""

    title: str
    env: str
    env_config: Mapping[str, Any]
    merged: bool = True  # by merged positions; else by the tree
    last_entropy: float = 0.02  # where the bonus of mmd ends: less is nearer to an equilibrium, and lets noise in


GAMES: dict[str, Game] = {
    "phantom_ttt": Game("phantom tic-tac-toe", "phantom_ttt", {}),
    "phantom_ttt_abrupt": Game("phantom tic-tac-toe, abrupt", "phantom_ttt", {"version": "abrupt"}, last_entropy=0.04),
    "dark_hex": Game("dark hex 3x3", "dark_hex", {"rows": 3, "columns": 3}),
    "dark_hex_abrupt": Game(
        "dark hex 3x3, abrupt", "dark_hex", {"rows": 3, "columns": 3, "version": "abrupt"}, last_entropy=0.04
    ),
    "liars_dice": Game("liar's dice", "liars_dice", {}, merged=False, last_entropy=0.01),
    # Small games, to try the benchmark itself.
    "kuhn": Game("Kuhn poker", "kuhn_poker", {}, merged=False),
    "dark_hex_2x2": Game("dark hex 2x2", "dark_hex", {"rows": 2, "columns": 2}),
}
TABLE_GAMES = ("phantom_ttt", "phantom_ttt_abrupt", "dark_hex", "dark_hex_abrupt", "liars_dice")


def falling(plies: int, first: float, last: float, points: int = 5) -> list[list[float]]:
    """A schedule from the first value to the last, by equal factors in equal times."""
    found = []
    for i in range(points):
        share = i / (points - 1)
        found.append([round(plies * share), first * (last / first) ** share])
    return found


# -- settings of our own -----------------------------------------------------------------------------------------------

ON_POLICY: Keys = {
    "gamma": 1.0, "gae_lambda": 0.8, "critic_sees": "all", "train_batch_size": 4096, "sgd_minibatch_size": 1024,
    "num_sgd_iter": 2,
}  # fmt: skip


def ppo(plies: int) -> Keys:
    """The usual one, with a small bonus for entropy."""
    return {"name": "ppo", **ON_POLICY, "entropy_coeff": 0.05, "lr_schedule": falling(plies, 1e-3, 1e-4)}


def mmd(plies: int) -> Keys:
    """Drawn to uniform play, strongly in the beginning: what is drawn too little circles, and does not come back."""
    return {
        "name": "mmd", **ON_POLICY, "normalize_advantages": False, "grad_clip": 10.0, "clip_param": 1.0,
        "backward_kl_coeff_schedule": falling(plies, 2.0, 50.0), "lr_schedule": falling(plies, 1e-3, 5e-5),
    }  # fmt: skip


def rnad(plies: int) -> Keys:
    """Twenty regularisation policies in a run."""
    batches = max(1, plies // 1024)
    return {
        "name": "rnad", "gamma": 1.0, "critic_sees": "all", "train_batch_size": 1024, "sgd_minibatch_size": 512,
        "num_sgd_iter": 2, "regularisation_coeff": 0.5, "regularisation_every": max(1, batches // 20), "neurd_threshold": 4.0,
        "lr_schedule": falling(plies, 2e-3, 2e-4),
    }  # fmt: skip


def nfsp(plies: int) -> Keys:
    """Its preset, however long the run is."""
    del plies
    return {"name": "nfsp", "gamma": 1.0, "updates_per_step": 0.02, "buffer_size": 200_000}


PSRO_ROUNDS = 8


def psro(plies: int) -> Keys:
    """PPO oracles for eight rounds, all with the same step size: a schedule would count the plies of the whole run."""
    del plies
    return {"name": "ppo", **ON_POLICY, "entropy_coeff": 0.01, "lr": 5e-4}


BY_REGRETS: Keys = {
    "memory_of": "views", "restart_regrets": False, "traversals": 1024, "regret_updates": 100, "average_updates": 50,
    "train_batch_size": 1024,
}  # fmt: skip


def escher(plies: int) -> Keys:
    """Memories of views, and networks that go on."""
    return {"name": "escher", **BY_REGRETS, "lr_schedule": falling(plies, 1e-3, 3e-4)}


def deep_cfr(plies: int) -> Keys:
    """The same; games with traversals of more than ``max_branches`` positions are refused."""
    return {"name": "deep_cfr", **BY_REGRETS, "lr_schedule": falling(plies, 1e-3, 3e-4)}


METHODS: dict[str, Callable[[int], Keys]] = {
    "ppo": ppo, "mmd": mmd, "nfsp": nfsp, "psro": psro, "rnad": rnad, "escher": escher, "deep_cfr": deep_cfr,
}  # fmt: skip
SEEDS = {"ppo": 5, "mmd": 5}  # the others: 3
OTHER_SEEDS = 3
# Fewer where a method is slow: each run takes one to three minutes of one core.
PLIES = {"ppo": 10_000_000, "mmd": 10_000_000, "rnad": 2_000_000, "nfsp": 2_000_000, "psro": 2_000_000}
OTHER_PLIES = 1_000_000
POINTS = {"psro": 4}  # a mixture of eight members takes half a minute to measure
OTHER_POINTS = 20

# -- settings of the benchmark ----------------------------------------------------------------------------------------

PROTOCOL_METHODS = ("ppo", "mmd")
PROTOCOL = Path(__file__).parents[1] / "scenarios" / "frontier"
"""A scenario per game and method, with the benchmark's best keys, for 10 M plies."""


def protocol(game: str, method: str, plies: int) -> Keys:
    """The benchmark's keys, with the step size falling over the whole of a run of so many plies."""
    keys = read_yaml(PROTOCOL / f"{game}_{method}.yaml")
    last = keys["stop"]["timesteps_total"]
    keys["algo"]["lr_schedule"] = [[t * plies // last, lr] for t, lr in keys["algo"]["lr_schedule"]]
    for key in ("stop", "exploitability"):  # the table stops and measures by itself
        del keys[key]
    return keys


# -- a whole scenario ---------------------------------------------------------------------------------------------------

SMALL: Keys = {"fcnet_hiddens": [128, 128], "fcnet_activation": "relu"}


def scenario_of(game: str, method: str, plies: int, seed: int, settings: str) -> Keys:
    """All keys of one run of the table."""
    always = {"seed": seed, "evaluation": {"interval": 0}, "log_sys_usage": False, "checkpoint_freq": 0}
    if settings == "protocol":
        return {**protocol(game, method, plies), **always}
    played = GAMES[game]
    keys: Keys = {
        "env": played.env, "env_config": dict(played.env_config), **always, "algo": METHODS[method](plies), "model": SMALL,
        "num_envs_per_worker": 256, "multiagent": {"policy_mapping_fn": "per_agent"},
    }  # fmt: skip
    if method == "mmd":
        keys["algo"]["entropy_coeff_schedule"] = falling(plies, 0.2, played.last_entropy)
    if method == "nfsp":
        keys |= {"num_envs_per_worker": 64, "timesteps_per_iteration": 2560}
    if method == "psro":
        keys["population"] = {"kind": "psro", "oracle": "ppo", "round_timesteps": plies // PSRO_ROUNDS, "matches": 1000}
        del keys["multiagent"]
    return keys
