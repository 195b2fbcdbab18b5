"""``marl run FILE`` of a file in JoyRL's words that says ``mode: test``: a rollout."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from marl.cli.play import rollout
from marl.errors import ConfigError, printable


def played_instead(
    file: Path | None, of_training: Mapping[str, object], allow: list[str] | None = None, as_json: bool = False
) -> bool:
    """Play what the file says, if it says ``mode: test``; False: it is to be trained. ``of_training``: options that would
    then mean nothing."""
    from marl.scenario.load import read_any

    if file is None:
        return False
    _, translation = read_any(file)
    if translation is None or translation.playing is None:
        return False
    for option, value in of_training.items():
        if value:
            raise ConfigError(
                f"{file} says mode: test, which plays a trained run: {option} means nothing to it. Drop it."
            )
    print(printable(translation.text), file=sys.stderr, flush=True)
    wish = translation.playing
    rollout(
        wish.path,
        episodes=wish.episodes,
        sets=list(wish.sets),
        seed=wish.seed,
        render=wish.render,
        video=wish.video,
        allow=allow,
        as_json=as_json,
    )
    return True
