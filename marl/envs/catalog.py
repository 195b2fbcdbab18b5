"""The built-in games, under their names."""

from __future__ import annotations

from marl.envs.adapters.copies import GymnasiumCopies
from marl.envs.games.cards.kuhn import KuhnGames
from marl.envs.games.cards.leduc import LeducGames
from marl.envs.games.cards.liars_dice import LiarsDiceGames
from marl.envs.games.matrix import MatrixGames
from marl.envs.games.particles.speaker_listener import SpeakerListenerGames
from marl.envs.games.particles.spread import SpreadGames
from marl.envs.games.particles.tag import TagGames
from marl.envs.games.traffic import TrafficGames
from marl.envs.games.two_step import TwoStepGames
from marl.envs.games.windy_maze import WindyMaze
from marl.envs.registry import register_env

register_env("two_step_game", TwoStepGames)
register_env("matrix_game", MatrixGames)
register_env("kuhn_poker", KuhnGames)
register_env("leduc_poker", LeducGames)
register_env("liars_dice", LiarsDiceGames)
register_env("congestion", "marl.envs.games.networks.congestion:CongestionGames")
register_env("graphical_game", "marl.envs.games.networks.graphical:GraphicalGames")
register_env("traffic", TrafficGames)
register_env("fast:simple_spread", SpreadGames)
register_env("fast:simple_tag", TagGames)
register_env("fast:simple_speaker_listener", SpeakerListenerGames)
register_env("windy_maze", WindyMaze)
register_env("copies", GymnasiumCopies)
