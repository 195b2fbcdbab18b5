"""Words: what agents say, instead of moving or in the same action, and how pictures and scenes show it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from marl.data.task import Array, Floats
from marl.envs.games.particles.drawing import Disc
from marl.envs.games.particles.games import NUM_MOVES


def said(actions: Array, num_words: int, continuous: bool) -> Array:
    """How loud each word is, ``[n, num_words, E]``, of words ``[E, n]`` or, continuous, of ``[E, n, num_words]``."""
    if continuous:
        return np.clip(actions, 0, 1).transpose(1, 2, 0)
    loud: Array = actions.T[:, None] == np.arange(num_words)[:, None]
    return loud


def moves_and_words(actions: Array, num_words: int, continuous: bool) -> tuple[Array, Array]:
    """Takes actions apart in which agents move and speak: ``move + 5 * word``, or five numbers and then one per word."""
    if continuous:
        return actions[..., :NUM_MOVES], said(actions[..., NUM_MOVES:], num_words, continuous)
    words = actions // NUM_MOVES
    return actions - NUM_MOVES * words, said(words, num_words, continuous)


def names_of_moves_and_words(moves: Sequence[str], num_words: int) -> tuple[str, ...]:
    names: list[str] = []
    for word in range(num_words):
        names += [f"{move}, say {word}" for move in moves]
    return tuple(names)


def as_text(loudness: Floats, continuous: bool) -> str:
    """One agent's word, for a reader; nothing while it has not spoken."""
    if not loudness.any():
        return ""
    if continuous:
        return " ".join(f"{loud:.1f}" for loud in loudness)
    return f"word {int(loudness.argmax())}"


def sayings(speakers: Sequence[str], words: Floats, continuous: bool) -> list[dict[str, str]]:
    """What a scene shows of words ``[n, num_words]``: who said what."""
    shown: list[dict[str, str]] = []
    for name, loudness in zip(speakers, words, strict=True):
        text = as_text(loudness, continuous)
        if text:
            shown.append({"name": name, "text": text})
    return shown


def lamps(words: Floats, reach: float) -> list[Disc]:
    """The last words ``[n, num_words]`` as lamps in the lower left corner, a row per speaker: the darker, the louder."""
    shown: list[Disc] = []
    for row, loudness in enumerate(words):
        y = (0.1 * row - 0.92) * reach
        for i, strength in enumerate(loudness):
            shade = 1.0 - float(strength)
            shown.append(Disc((0.1 * i - 0.92) * reach, y, 0.04 * reach, (shade, shade, shade)))
    return shown
