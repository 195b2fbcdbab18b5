"""Games with people, in a process of their own: an env that crashes ends its game, and never the server.

Every call says the whole game (its deal, seed and moves), so a process that has just begun plays it again from there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from marl.envs.branching import action_names
from marl.errors import ConfigError, StorageError, UserError
from marl.inputs import real_path
from marl.play.playable import Playable
from marl.rollout.env_runner import EnvRunner
from marl.serve.refused import Refused
from marl.watch.play.hints import hint as hint_for
from marl.watch.play.keeping import keep
from marl.watch.play.moves import described
from marl.watch.play.seating import Seating, check_seat, opened, policy_of, populations_of, seated
from marl.watch.play.table import Table
from marl.watch.workers import Tell

MOST_TABLES, MOST_OPEN = 16, 4
MOST_SEATS = 64  # that a page can list
STEPS_LOOKED_AT = 100  # of an env whose agents come and go
_tables: OrderedDict[str, Table] = OrderedDict()
_playables: OrderedDict[tuple[Any, ...], Playable] = OrderedDict()


# -- what can be played ------------------------------------------------------------------------------------------------


def look(arguments: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """The seats of a run or an env: what is done there, who plays there, who may, and who begins."""
    del tell
    playable = _opened(arguments)
    return {"env": str(playable.setup.rollout.env), **_seats(playable)}


def _seats(playable: Playable) -> dict[str, Any]:
    alone = playable.folder == Path()
    runner = Seating(playable, playable.cast, frozenset(), alone).runner()
    env = runner.env
    try:
        begins = _who_begins(runner)
        found = []
        for agent in _agents_of(runner):
            mine = policy_of(playable, agent)
            kind = playable.setup.task.kinds[playable.cast.kinds[mine]]
            found.append(
                {
                    "agent": agent,
                    "policy": None if alone else mine,
                    "kind": playable.cast.kinds[mine],
                    "action": described(kind, action_names(env, agent)),
                    "trouble": _trouble(agent, kind),
                    "begins": agent in begins,
                }
            )
    finally:
        env.close()
    policies = [] if alone else list(playable.learned)
    return {"seats": found, "policies": policies, "populations": populations_of(playable), "alone": alone}


def _who_begins(runner: EnvRunner) -> set[str]:
    """Agents that are asked first, whatever the seed: of those that come by luck nobody can say it."""
    found: list[set[str]] = []
    for seed in range(3):
        runner.begin(np.array([0]), np.array([seed]))
        seats = np.flatnonzero(runner.view.present[0]).tolist()
        found.append({runner.env.agent_at(0, seat) for seat in seats})
    return set.intersection(*found)


def _trouble(agent: str, kind: Any) -> str:
    """Why a person cannot sit there; empty where one can."""
    try:
        check_seat(agent, kind)
    except UserError as error:
        return str(error)
    return ""


def _agents_of(runner: EnvRunner) -> list[str]:
    """The agents by name; where they come and go, those that come in the first steps of an episode."""
    env = runner.env
    if env.fixed_seats:
        return list(env.seat_names)[:MOST_SEATS]
    found: dict[str, None] = {}
    rng = np.random.default_rng(0)
    for _ in range(STEPS_LOOKED_AT):
        for seat in np.flatnonzero(runner.view.present[0]).tolist():
            found[env.agent_at(0, seat)] = None
        output = runner.advance(runner.decide(rng, explore=False))
        over = runner.settle(output)
        if over.size or len(found) >= MOST_SEATS:
            break
    return list(found)[:MOST_SEATS]


def _opened(deal: Mapping[str, Any]) -> Playable:
    """Opening a run takes long, so the last ones stay open."""
    key: tuple[Any, ...] = ("env", deal.get("env"), repr(deal.get("env_config")))
    if deal.get("folder") is not None:
        place = real_path(Path(deal["folder"]))
        # A run that goes on has other checkpoints later, and `best` is written anew.
        written = map(_written, [place, *place.glob("checkpoints"), *place.glob("*.json")])
        key = (str(place), *sorted(written))
    if key not in _playables:
        _playables[key] = opened(deal, frozenset(deal.get("allow", ())))
        while len(_playables) > MOST_OPEN:
            _playables.popitem(last=False)
    _playables.move_to_end(key)
    return _playables[key]


def _written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:  # it is gone: whoever opens it tells so
        return 0


# -- games -------------------------------------------------------------------------------------------------------------


def deal(arguments: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """Begin a game. The answer names the checkpoint, which stays the same while the game lasts."""
    del tell
    table = _dealt(arguments, [])
    _put(arguments["game"], table)
    return {**table.sights.told(), **_about(table)}


def play(arguments: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """All people who are asked have decided: one step, and on until somebody is asked again."""
    del tell
    table = _table(arguments)
    try:
        table.play(arguments["decision"])
    except Refused:
        raise  # nothing has happened
    except BaseException:
        _drop(arguments["game"])
        raise
    return _told(table, arguments)


def check(arguments: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """Whether one person's move is legal, before others have decided."""
    del tell
    _table(arguments).checked(arguments["agent"], arguments["action"])
    return {}


def undo(arguments: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """Go back to where fewer decisions led. The game as it is stays, if the env does not repeat itself."""
    del tell
    before = _table(arguments)
    back = _dealt(arguments, arguments["moves"][: arguments["keep"]])
    if not back.repeats(before):
        back.close()
        raise Refused(
            "cannot_undo",
            f"env {before.runner.env.name!r} does not repeat itself: with the same seed and the same moves it shows something "
            "else, so no move can be taken back in it.",
            409,
        )
    _drop(arguments["game"])
    _put(arguments["game"], back)
    return back.sights.told()


def hint(arguments: dict[str, Any], tell: Tell) -> dict[str, Any]:
    del tell
    return hint_for(_table(arguments), arguments["agent"])


def forget(arguments: dict[str, Any], tell: Tell) -> dict[str, Any]:
    del tell
    _drop(arguments["game"])
    return {}


def _told(table: Table, arguments: Mapping[str, Any]) -> dict[str, Any]:
    told = table.sights.told()
    if table.over:
        about = {**arguments["about"], "returns": table.returns, "steps": table.steps, "seed": table.seed}
        told["recording"], told["not_kept"] = None, ""
        try:
            told["recording"] = keep(table, Path(arguments["root"]), arguments["name"], about)
        except StorageError as error:  # a full disk is no reason to take the result away
            told["not_kept"] = str(error)
    return told


def _about(table: Table) -> dict[str, Any]:
    playable = table.seating.playable
    env, game = playable.setup.rollout.env, playable.setup.rollout.env_config.get("game")
    # Envs of several games (matrix_game) name theirs by this key.
    variant = game if isinstance(game, str) else None
    return {"env": str(env), "variant": variant, "folder": str(playable.folder)}


def _dealt(arguments: Mapping[str, Any], moves: list[Any]) -> Table:
    deal = arguments["deal"]
    playable = _opened(deal)
    seating = seated(playable, deal["seats"], playable.folder == Path())
    keys = {"explore": deal["explore"], "open_picture": deal["open_picture"]}
    return Table.replayed(seating, arguments["seed"], moves, **keys)


def _table(arguments: Mapping[str, Any]) -> Table:
    """The game as the server knows it; played again where this process does not have it, or has it otherwise."""
    name, moves = arguments["game"], arguments["moves"]
    table = _tables.get(name)
    if table is not None and table.moves == moves and table.seed == arguments["seed"]:
        return table
    _drop(name)
    table = _dealt(arguments, moves)
    if table.mark != arguments["mark"]:
        table.close()
        raise ConfigError(
            f"env {table.runner.env.name!r} does not repeat itself, so the game could not be brought back into a new process."
        )
    _put(name, table)
    return table


def _put(name: str, table: Table) -> None:
    _drop(name)
    _tables[name] = table
    while len(_tables) > MOST_TABLES:
        _, oldest = _tables.popitem(last=False)
        oldest.close()


def _drop(name: str) -> None:
    table = _tables.pop(name, None)
    if table is not None:
        table.close()
