"""Rules for many observations at once: a mark that a function of the user carries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Rule = TypeVar("Rule", bound=Callable[..., Any])
MARK = "takes_a_batch"


def batched_rule(rule: Rule) -> Rule:
    """Mark a rule that answers for many agents at once.

    It is called with arrays that have one more axis in front, a row per agent that acts: ``(obs)``, ``(obs, rng)`` or
    ``(obs, rng, legal)``, and returns an action per row. In many copies of an env this takes a fraction of the time that a
    call per agent takes.
    """
    setattr(rule, MARK, True)
    return rule


def is_batched(rule: object) -> bool:
    """Whether a rule carries the mark."""
    return bool(getattr(rule, MARK, False))
