"""A policy that asks a language model, once per view.

What it is asked and how answers are read stands in ``answers.py``. The chances of a view are kept as counts of answers, from
which ``interval.py`` knows how sure they are; with log probabilities they are certain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marl.data.task import AgentType, Array, Floats
from marl.envs.texts import TextView
from marl.errors import ConfigError, PolicyError
from marl.gametheory.language.answers import action_in, chances_in, request_for
from marl.gametheory.language.endpoint import ask_server
from marl.gametheory.language.journal import Journal
from marl.gametheory.language.views import texts_of_views, view_key
from marl.policies.config import ScriptedConfig
from marl.policies.distributions import race
from marl.policies.language_config import LanguageModelConfig
from marl.policies.policy import Decision, Inputs, Insight, Policy


@dataclass(frozen=True, eq=False)
class Opinion:
    """What the model said about one view."""

    counts: NDArray[np.float64]  # [actions]: answers by action; chances where they are certain
    certain: bool  # whether these are the model's own chances instead of a sample
    fallbacks: int  # answers that named no legal action after all tries

    @property
    def chances(self) -> NDArray[np.float64]:
        chances: NDArray[np.float64] = self.counts / self.counts.sum()
        return chances


class LanguageModelPolicy(Policy):
    """Plays as a language model says. Every view is asked about once, when it is first met."""

    env_units = True

    def __init__(self, kind: AgentType, config: LanguageModelConfig) -> None:
        super().__init__(kind)
        if config.env is None:
            raise ConfigError(
                "scripted language_model: it is not said whose texts are shown. Set env: to the env's name."
            )
        self.config = config
        self.journal = Journal(None if config.journal is None else Path(config.journal))
        self.texts = texts_of_views(config.env, config.env_config)
        self.opinions: dict[tuple[int, bytes], Opinion] = {}

    def probabilities(self, inputs: Inputs, carry: Floats) -> Array:
        """``[N, actions]``: how likely the model plays each action."""
        del carry
        rows = [self.opinion(int(seat), obs).chances for seat, obs in zip(inputs.agent_index, inputs.obs, strict=True)]
        return np.array(rows)

    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        chances = self.probabilities(inputs, carry)
        # Its best guess is a draw as well: a model that bluffs half of the time is not one that never does.
        actions = race(chances, rng) if explore or self.config.temperature > 0 else chances.argmax(axis=1)
        logp = np.log(chances[np.arange(len(actions)), actions]).astype(np.float32)
        return Decision(actions.astype(self.kind.action_dtype), logp, carry)

    def tells_logp(self, explore: bool) -> bool:
        del explore
        return True

    def insight(self, inputs: Inputs, carry: Floats, *, explore: bool) -> Insight:
        del explore
        return Insight(self.probabilities(inputs, carry).astype(np.float32))

    # -- asking --------------------------------------------------------------------------------------------------------

    def opinion(self, seat: int, obs: Array) -> Opinion:
        """What the model says about a view of the seat within its kind; asked once."""
        key = (self.kind.first_seat + seat, view_key(obs))
        if key not in self.opinions:
            text = self.texts[key[0]].get(key[1])
            if text is None:
                raise PolicyError(
                    f"scripted language_model: {self.kind.agents[seat]} sees something that env {self.config.env!r} with "
                    f"env_config {self.config.env_config} never shows. Give it the env and the env_config that are played."
                )
            self.opinions[key] = READINGS[self.config.chances](self, text)
        return self.opinions[key]

    def sampled(self, text: TextView) -> Opinion:
        """Answers to the same question, asked as often as the config says."""
        counts = np.zeros(self.kind.columns.options)
        fallbacks = 0
        for sample in range(self.config.samples):
            action = self._answer(text, sample)
            if action is None:
                fallbacks += 1
                counts += self._fallback(text)
            else:
                counts[action] += 1
        return Opinion(counts, False, fallbacks)

    def told(self, text: TextView) -> Opinion:
        """The model's own chances, from the log probabilities of its first token."""
        chances = np.zeros(self.kind.columns.options)
        reply = self._ask(request_for(self.config, text, 0, ()))
        # More actions than letters have labels of several tokens, of which the first says too little.
        if reply.get("logprobs") is None or len(text.actions) > len(ascii_uppercase):
            raise PolicyError(
                f"the language model {self.config.model!r} tells no log probabilities of these {len(text.actions)} actions. "
                "Set chances: samples, or take a server that serves them."
            )
        found = chances_in(reply.get("logprobs"), text)
        if found is None:
            return Opinion(chances + self._fallback(text), True, 1)
        chances[list(text.actions.values())] = found
        return Opinion(chances, True, 0)

    def _answer(self, text: TextView, sample: int) -> int | None:
        """A legal action, after as many tries as it may take; None: not even then."""
        wrong: list[str] = []
        for _ in range(1 + self.config.retries):
            content = str(self._ask(request_for(self.config, text, sample, wrong)).get("content", ""))
            action = action_in(content, text)
            if action is not None:
                return action
            wrong.append(content[:500])  # a model that rambles would not fit into its own context
        return None

    def _fallback(self, text: TextView) -> NDArray[np.float64]:
        """What one failed question counts as."""
        counts = np.zeros(self.kind.columns.options)
        legal = list(text.actions.values())
        if self.config.fallback == "error":
            raise PolicyError(
                f"the language model {self.config.model!r} named no legal action after {1 + self.config.retries} tries, asked "
                f"about: {text.seen!r}. Legal: {', '.join(text.actions)}. Set fallback: uniform, or take another model."
            )
        if self.config.fallback == "first":
            legal = legal[:1]
        counts[legal] = 1 / len(legal)
        return counts

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """From the journal, or else from the server."""
        # A question that was answered before is never asked again, so that a repeated run is the same run.
        known = self.journal.find(request)
        if known is not None:
            return known
        if self.config.offline:
            raise PolicyError(
                f"scripted language_model: {self.config.journal or 'the journal'} does not hold the question "
                f"{request['messages'][1]['content'][:200]!r}, and offline is set. Unset it to ask the model."
            )
        answer = ask_server(self.config.base_url, request, self.config.timeout)
        self.journal.add(request, answer)
        return answer


READINGS: dict[str, Callable[[LanguageModelPolicy, TextView], Opinion]] = {
    "samples": LanguageModelPolicy.sampled,
    "logprobs": LanguageModelPolicy.told,
}
"""How the chances of actions are read, by ``chances``."""


def language_model(kind: AgentType, config: ScriptedConfig) -> LanguageModelPolicy:
    """The policy behind ``scripted: {name: language_model}``."""
    return LanguageModelPolicy(kind, config.language_model or LanguageModelConfig())
