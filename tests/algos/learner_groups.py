"""Real learner groups whose members are threads of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from marl.algos.learner_group import GlooLearnerGroup, join_store, open_store

T = TypeVar("T")
HOME = "127.0.0.1"


def together(size: int, work: Callable[[GlooLearnerGroup], T]) -> list[T | BaseException]:
    """What ``work`` gives (or raises) for each member of a real learner group, each in a thread of its own."""
    store = open_store(HOME)
    found: list[T | BaseException] = [RuntimeError("never finished")] * size

    def run(rank: int) -> None:
        try:
            group = GlooLearnerGroup(store if rank == 0 else join_store(HOME, store.port), rank, size, HOME)
            found[rank] = work(group)
            group.close()
        except BaseException as error:
            found[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found
