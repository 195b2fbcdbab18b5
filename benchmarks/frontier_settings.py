"""What ``frontier.py`` compares: games, methods and their keys.

Schedules are given for a whole run, so they scale with its plies. Payoffs of all games here are 1 and -1, so one setting of a
method serves all of them. ``PROTOCOL`` has the settings of the benchmark of Rudolph et al. (arXiv 2502.08938): one actor and
one critic for both seats, 8 copies, 3 x 512 tanh.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

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
    batches = max(1, plies // 4096)
    return {
        "name": "rnad", "gamma": 1.0, "critic_sees": "all", "train_batch_size": 4096, "sgd_minibatch_size": 1024,
        "num_sgd_iter": 1, "regularisation_coeff": 0.2, "regularisation_every": max(1, batches // 20), "neurd_threshold": 4.0,
        "lr_schedule": falling(plies, 1e-3, 1e-4),
    }  # fmt: skip


def nfsp(plies: int) -> Keys:
    """Its preset, however long the run is."""
    del plies
    return {"name": "nfsp", "gamma": 1.0, "updates_per_step": 0.02, "buffer_size": 200_000}


def psro(plies: int) -> Keys:
    """Eight rounds of PPO oracles."""
    rounds = plies // 8
    return {**ppo(rounds), "entropy_coeff": 0.01}


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

# -- settings of the benchmark ----------------------------------------------------------------------------------------
# lr, steps of each copy, minibatches, passes, clip, entropy, value, gradient norm, backward KL

PROTOCOL: dict[str, dict[str, tuple[float, ...]]] = {
    "ppo": {
        "phantom_ttt": (2.5e-4, 128, 4, 4, 0.1, 0.05, 0.5, 0.5, 0.0),
        "phantom_ttt_abrupt": (2.5e-4, 512, 1, 4, 0.8, 0.2, 0.5, 1.0, 0.0),
        "dark_hex": (2e-3, 512, 4, 8, 0.025, 0.05, 1.0, 2.0, 0.0),
        "dark_hex_abrupt": (2.5e-4, 256, 8, 4, 0.025, 0.05, 0.0625, 2.0, 0.0),
        "liars_dice": (6.25e-5, 256, 1, 8, 0.025, 0.1, 0.0625, 0.5, 0.0),
    },
    "mmd": {
        "phantom_ttt": (2.5e-4, 128, 4, 4, 0.1, 0.05, 0.5, 0.5, 0.05),
        "phantom_ttt_abrupt": (2.5e-4, 16, 1, 4, 0.8, 0.2, 1.0, 0.25, 0.2),
        "dark_hex": (6.25e-5, 128, 4, 1, 0.1, 0.2, 2.0, 2.0, 0.025),
        "dark_hex_abrupt": (6.25e-5, 32, 32, 2, 0.8, 0.05, 0.0625, 0.5, 0.1),
        "liars_dice": (6.25e-5, 256, 1, 8, 0.025, 0.1, 0.0625, 0.5, 0.025),
    },
}
COPIES = 8


def protocol(method: str, game: str, plies: int) -> Keys:
    """The benchmark's best keys of a method in a game."""
    lr, steps, parts, passes, clip, entropy, value, norm, kl = PROTOCOL[method][game]
    batch = COPIES * int(steps)
    keys: Keys = {
        "name": method, "gamma": 0.99, "gae_lambda": 0.95, "train_batch_size": batch,
        "sgd_minibatch_size": batch // int(parts), "num_sgd_iter": int(passes), "clip_param": clip, "vf_clip_param": clip,
        "entropy_coeff": entropy, "vf_loss_coeff": value, "grad_clip": norm, "lr_schedule": [[0, lr], [plies, 0.0]],
    }  # fmt: skip
    return {**keys, "backward_kl_coeff": kl} if kl else keys


# -- a whole scenario ---------------------------------------------------------------------------------------------------

SMALL: Keys = {"fcnet_hiddens": [128, 128], "fcnet_activation": "relu"}
LARGE: Keys = {"fcnet_hiddens": [512, 512, 512], "fcnet_activation": "tanh"}


def scenario_of(game: str, method: str, plies: int, seed: int, settings: str) -> Keys:
    """All keys of one run of the table."""
    played = GAMES[game]
    keys: Keys = {
        "env": played.env, "env_config": dict(played.env_config), "seed": seed, "evaluation": {"interval": 0},
        "log_sys_usage": False, "checkpoint_freq": 0,
    }  # fmt: skip
    if settings == "protocol":
        shared = {"policies": {"both": {}}, "policy_mapping_fn": {"player_*": "both"}}
        keys |= {"algo": protocol(method, game, plies), "model": LARGE, "num_envs_per_worker": COPIES}
        keys["multiagent"] = shared
    else:
        keys |= {"algo": METHODS[method](plies), "model": SMALL, "num_envs_per_worker": 256}
        keys["multiagent"] = {"policy_mapping_fn": "per_agent"}
        if method == "mmd":
            keys["algo"]["entropy_coeff_schedule"] = falling(plies, 0.2, played.last_entropy)
    if method == "nfsp":
        keys |= {"num_envs_per_worker": 64, "timesteps_per_iteration": 2560}
    if method == "psro":
        keys["population"] = {"kind": "psro", "oracle": "ppo", "round_timesteps": plies // 8, "matches": 1000}
        del keys["multiagent"]
    return keys
