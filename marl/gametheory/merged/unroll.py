"""Views that come up again later in a game: told apart by how often their player has decided before.

The walk goes from view to view, so no view may follow itself. Where one does (a player that sees little sees the same twice),
its positions are numbered once for each number of own decisions before them, which the player remembers anyway: nothing is
told to it that it did not know, and positions never repeat, so the numbering ends.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from marl.data.task import Ints
from marl.gametheory.merged.kernel import Kernel


def without_repeats(kernel: Kernel) -> Kernel:
    """The same game, in which no view can be seen twice."""
    if not _repeats(kernel):
        return kernel
    return _unrolled(kernel)


def _repeats(kernel: Kernel) -> bool:
    """Whether some view leads back to itself."""
    views = len(kernel.legal)
    before, after = kernel.view[kernel.source], kernel.view[kernel.target]
    if (before == after).any():
        return True
    follows = sparse.coo_array((np.ones(len(before), bool), (before, after)), shape=(views, views))
    circles, _ = csgraph.connected_components(sparse.csr_array(follows), connection="strong")
    return bool(circles < views)


def _unrolled(kernel: Kernel) -> Kernel:
    """Own positions level by level, by the number of own decisions before them."""
    by_source = np.argsort(kernel.source, kind="stable")
    first = np.searchsorted(kernel.source[by_source], np.arange(len(kernel) + 1))
    level, offset, depth = np.flatnonzero(kernel.start > 0), 0, 0
    own, code, source, target, entry = [], [], [], [], []
    while level.size:
        counts = first[level + 1] - first[level]
        rows = np.repeat(np.arange(len(level)), counts)
        place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        taken = by_source[first[level][rows] + place]
        following, number = np.unique(kernel.target[taken], return_inverse=True)
        own.append(level)
        code.append(depth * len(kernel.legal) + kernel.view[level])
        source.append(offset + rows)
        target.append(offset + len(level) + number.reshape(-1))
        entry.append(taken)
        level, offset, depth = following, offset + len(level), depth + 1
    if not own:
        return kernel
    starts = np.arange(offset) < len(own[0])
    moves = [np.concatenate(part) for part in (source, target, entry)]
    return _numbered(kernel, np.concatenate(own), np.concatenate(code), starts, moves)


def _numbered(kernel: Kernel, own: Ints, code: Ints, starts: Ints, moves: list[Ints]) -> Kernel:
    """Positions sorted by their new views ``code``."""
    source, target, entry = moves
    order = np.argsort(code, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    codes, view = np.unique(code[order], return_inverse=True)
    view = view.reshape(-1)
    shown = codes % len(kernel.legal)
    return replace(
        kernel, legal=kernel.legal[shown], shown=kernel.shown[shown],
        first=np.searchsorted(view, np.arange(len(codes) + 1)), own=kernel.own[own[order]], view=view,
        source=place[source], action=kernel.action[entry], target=place[target], chance=kernel.chance[entry],
        reward=kernel.reward[own[order]], start=np.where(starts, kernel.start[own], 0.0)[order],
    )  # fmt: skip
