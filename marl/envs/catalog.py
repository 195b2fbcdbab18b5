"""The built-in games, under their names, and the built-in families of envs, under their prefixes."""

from __future__ import annotations

from functools import partial

from marl.envs.adapters.copies import GymnasiumCopies
from marl.envs.adapters.optional import (
    foraging_family,
    foraging_keys,
    openspiel_family,
    openspiel_keys,
    vmas_family,
)
from marl.envs.adapters.pettingzoo_names import make_pettingzoo, pettingzoo_keys
from marl.envs.batched import BatchedEnv
from marl.envs.external.contract import EXTERNAL
from marl.envs.external.env import ExternalCreator
from marl.envs.families import ENV_FAMILIES, EnvFamily
from marl.envs.games.boards.battleship import Battleship
from marl.envs.games.boards.connect_four import ConnectFour
from marl.envs.games.boards.dark_hex import DarkHex
from marl.envs.games.boards.nim import Nim
from marl.envs.games.boards.phantom_ttt import PhantomTicTacToe
from marl.envs.games.boards.tic_tac_toe import TicTacToe
from marl.envs.games.cards.goofspiel import GoofspielGames
from marl.envs.games.cards.kuhn import KuhnGames
from marl.envs.games.cards.leduc import LeducGames
from marl.envs.games.cards.liars_dice import LiarsDiceGames
from marl.envs.games.cards.tiny_hanabi import TinyHanabiGames
from marl.envs.games.foraging.games import ForagingGames
from marl.envs.games.key_door import KeyDoor
from marl.envs.games.matrix import MatrixGames
from marl.envs.games.overcooked.kitchens import OvercookedGames
from marl.envs.games.particles.adversary import AdversaryGames
from marl.envs.games.particles.crypto import CryptoGames
from marl.envs.games.particles.push import PushGames
from marl.envs.games.particles.reference import ReferenceGames
from marl.envs.games.particles.speaker_listener import SpeakerListenerGames
from marl.envs.games.particles.spread import SpreadGames
from marl.envs.games.particles.tag import TagGames
from marl.envs.games.particles.world_comm import WorldCommGames
from marl.envs.games.repeat import RepeatGames
from marl.envs.games.traffic import TrafficGames
from marl.envs.games.two_step import TwoStepGames
from marl.envs.games.warehouse.games import WarehouseGames
from marl.envs.games.windy_maze import WindyMaze
from marl.envs.registry import register_built_in
from marl.errors import UnknownNameError, did_you_mean

FAST: dict[str, type[BatchedEnv]] = {
    "lbf": ForagingGames,
    "rware": WarehouseGames,
    "simple_spread": SpreadGames,
    "simple_tag": TagGames,
    "simple_speaker_listener": SpeakerListenerGames,
    "overcooked": OvercookedGames,
    "simple_adversary": AdversaryGames,
    "simple_push": PushGames,
    "simple_crypto": CryptoGames,
    "simple_reference": ReferenceGames,
    "simple_world_comm": WorldCommGames,
}
"""Envs of other packages that are natively batched here."""

register_built_in("two_step_game", TwoStepGames)
register_built_in("matrix_game", MatrixGames)
register_built_in("kuhn_poker", KuhnGames)
register_built_in("leduc_poker", LeducGames)
register_built_in("liars_dice", LiarsDiceGames)
register_built_in("phantom_ttt", PhantomTicTacToe)
register_built_in("dark_hex", DarkHex)
register_built_in("tic_tac_toe", TicTacToe)
register_built_in("connect_four", ConnectFour)
register_built_in("nim", Nim)
register_built_in("battleship", Battleship)
register_built_in("goofspiel", GoofspielGames)
register_built_in("tiny_hanabi", TinyHanabiGames)
register_built_in("congestion", "marl.envs.games.networks.congestion:CongestionGames")
register_built_in("graphical_game", "marl.envs.games.networks.graphical:GraphicalGames")
register_built_in("traffic", TrafficGames)
register_built_in("windy_maze", WindyMaze)
register_built_in("key_door", KeyDoor)
register_built_in("repeat_after_delay", RepeatGames)
register_built_in("copies", GymnasiumCopies)
register_built_in(EXTERNAL, ExternalCreator())
for _name, _games in FAST.items():  # few and all known, so they stand in lists of envs
    register_built_in(f"fast:{_name}", _games)


def fast_family(name: str) -> type[BatchedEnv]:
    if name not in FAST:
        known = sorted(f"fast:{game}" for game in FAST)
        env = f"fast:{name}"
        raise UnknownNameError(f"there is no env {env!r}. Known: {', '.join(known)}.{did_you_mean(env, known)}")
    return FAST[name]


for _family in (
    EnvFamily("pettingzoo", lambda path: partial(make_pettingzoo, path), "family/name_vN", pettingzoo_keys),
    EnvFamily("fast", fast_family),
    EnvFamily("vmas", vmas_family),
    EnvFamily("openspiel", openspiel_family, keys=openspiel_keys),
    EnvFamily("lbforaging", foraging_family, keys=foraging_keys),
):
    ENV_FAMILIES.register(_family.prefix, _family)
