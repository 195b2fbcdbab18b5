"""What a language model is asked about one view, and what its answers mean.

Every legal action has a letter. An answer is read strictly: the letter or the action's name and nothing else, whatever the
case, with quotes, brackets or a full stop around it. Log probabilities are those of the first token, taken over the letters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marl.envs.texts import TextView
from marl.policies.language_config import LanguageModelConfig

AROUND = " \t\r\n.\"'`()[]*"


def labels_of(text: TextView) -> dict[str, int]:
    """Legal actions by what stands before them: A, B, ..., or numbers where letters do not suffice."""
    count = len(text.actions)
    labels: Sequence[str] = ascii_uppercase if count <= len(ascii_uppercase) else list(map(str, range(1, count + 1)))
    return dict(zip(labels, text.actions.values(), strict=False))


def request_for(config: LanguageModelConfig, text: TextView, sample: int, wrong: Sequence[str]) -> dict[str, Any]:
    """The whole question. ``sample`` numbers repeated questions; ``wrong``: answers before that named no action."""
    labels = labels_of(text)
    options = "\n".join(f"{label}: {name}" for label, name in zip(labels, text.actions, strict=True))
    system = "\n\n".join(filter(None, (config.prompt, text.rules)))
    question = f"{text.seen}\n\nYou may do one of these:\n{options}\n\nAnswer with the letter of your choice alone."
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    # A model that is shown its mistake answers differently, and the question is another one for the journal.
    for answer in wrong:
        messages.append({"role": "assistant", "content": answer})
        messages.append(
            {"role": "user", "content": f"That is none of: {', '.join(labels)}. Answer with one of them alone."}
        )
    request: dict[str, Any] = {
        "model": config.model,
        "messages": messages,
        "temperature": config.temperature,
        "seed": sample,
    }
    if config.chances == "logprobs":
        request |= {"logprobs": True, "top_logprobs": 20, "max_tokens": 1}
    return request


def action_in(content: str, text: TextView) -> int | None:
    """The legal action that an answer names; None where it names none."""
    said = content.strip(AROUND).casefold()
    # Letters first: an action may be called "a" as well.
    for label, action in labels_of(text).items():
        if said == label.casefold():
            return action
    for name, action in text.actions.items():
        if said == name.casefold():
            return action
    return None


def chances_in(logprobs: Mapping[str, Any] | None, text: TextView) -> NDArray[np.float64] | None:
    """Chances of the legal actions, in their order; None where the server told none of their letters."""
    try:
        told = (logprobs or {})["content"][0]["top_logprobs"]
        by_letter: dict[str, float] = {}
        for entry in told:
            letter = str(entry["token"]).strip(AROUND).casefold()
            # " A" and "A" are different tokens of one meaning.
            by_letter[letter] = by_letter.get(letter, 0.0) + math.exp(float(entry["logprob"]))
    except (LookupError, TypeError, ValueError, OverflowError):
        return None
    weights = np.array([by_letter.get(label.casefold(), 0.0) for label in labels_of(text)])
    # What the model would have said besides the letters is left out: the rest is made to sum to 1.
    total = float(weights.sum())
    if not 0.0 < total < math.inf:
        return None
    return weights / total
