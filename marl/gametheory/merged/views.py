"""How policies play at each view: every policy is asked once for all that its player can ever see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from marl.data.task import Floats
from marl.errors import ConfigError, PolicyError
from marl.gametheory.merged.kernel import Table
from marl.gametheory.merged.positions import Positions
from marl.gametheory.readings import ROUNDING, check_fits, check_given, read
from marl.policies.policy import Inputs, Policy

ASKED = 65_536  # views of one question


def tables_of(positions: Positions, policies: Mapping[str, Policy], explore: bool | None = None) -> list[Table]:
    """Per player: the chances ``[views, actions]`` of its actions. ``explore`` is read as by ``strategy_of`` on trees."""
    check_given(positions.name, positions.players, policies)
    return [table_of(positions, player, policies[name], explore) for player, name in enumerate(positions.players)]


def table_of(positions: Positions, player: int, policy: Policy, explore: bool | None = None) -> Table:
    """The same for one player, whose policy has no memory."""
    name, kind = positions.players[player], positions.kind_of(player)
    check_fits(positions.name, name, kind, policy)
    if policy.carry_size:
        raise PolicyError(
            f"the policy of {name} is a {type(policy).__name__} with a memory, so what it does does not follow from what it "
            "sees now."
        )
    views = positions.views[player]
    found = np.zeros(views.legal.shape)
    for at in range(0, len(views), ASKED):
        part = slice(at, at + ASKED)
        legal = views.legal[part] if policy.kind.masked else views.legal[part, :0]
        obs = np.asarray(views.obs[part], kind.obs_dtype)
        inputs = Inputs(obs, legal, np.full(len(obs), player - kind.first_seat))
        nothing: Floats = np.zeros((len(obs), 0), np.float32)
        found[part] = read(name, policy, inputs, nothing, explore).chances
    return legal_chances(name, found * views.legal)


def check_tables(positions: Positions, tables: Sequence[Table], exploiter: int | None = None) -> None:
    """Refuse tables that do not hold chances of legal actions; that of the ``exploiter`` is not looked at."""
    given, expected = [table.shape for table in tables], [views.legal.shape for views in positions.views]
    if given != expected:
        raise ConfigError(
            f"game {positions.name!r}: tables of the shapes {given} were given; expected {expected}: for each of "
            f"{', '.join(positions.players)} a row for each view and a chance for each action."
        )
    for player, table in enumerate(tables):
        legal = positions.views[player].legal
        with np.errstate(invalid="ignore"):
            good = (table >= 0.0).all(axis=1) & (np.abs((table * legal).sum(axis=1) - 1.0) <= ROUNDING)  # also NaN
        if player != exploiter and not good.all():
            row = int((~good).argmax())
            raise ConfigError(
                f"game {positions.name!r}: row {row} of the table of {positions.players[player]} is "
                f"{np.round(table[row], 6).tolist()}, of which {np.flatnonzero(legal[row]).tolist()} are legal. Expected "
                "numbers of 0 or more, whose sum over legal actions is 1. Logits become chances by a softmax."
            )


def legal_chances(player: str, chances: Table) -> Table:
    """Rows of chances that add up to 1; refuses one without any."""
    chances = np.maximum(chances, 0.0)  # networks add up in float32, so 0 may be a little less
    total = chances.sum(axis=1, keepdims=True)
    if not (total > 0).all():  # also NaN
        raise PolicyError(
            f"the policy of {player} gives no legal action a chance at {int((~(total > 0)).sum())} of its {len(chances)} "
            "views. Its probabilities have to be 0 or more and hold a legal action."
        )
    return np.asarray(chances / total)
