"""The model card: a README.md that says what was trained, by what, what came of it and how to load it.

Its head is YAML, as the Hugging Face Hub reads it: https://huggingface.co/docs/hub/model-cards.
"""

from __future__ import annotations

import html
import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import yaml

from marl.algos.presets import ALGOS
from marl.envs.adapters.permits import places_given
from marl.play.export import Exported
from marl.runs.files import to_plain
from marl.runs.result import SMALLER_IS_BETTER, look_up
from marl.runs.saved import without_places
from marl.scenario.config import Scenario

REWARD, EVALUATION = "episode_reward_mean", "evaluation."
CARD = "README.md"
# They say how and where the run was made, not what was learned.
NOT_TOLD = ("name", "imports", "loggers", "callbacks", "record_env", "render_env", "log_level", "create_env_on_driver")


@dataclass(frozen=True)
class Facts:
    """What a card is made of."""

    scenario: Mapping[str, Any]
    results: Sequence[Mapping[str, Any]]
    policies: Sequence[Exported]
    checkpoint: str  # the name of the one that was exported
    iteration: int
    repo: str
    license: str | None = None

    @property
    def algo(self) -> str:
        return str(self.scenario["algo"]["name"])

    @property
    def env(self) -> str:
        return str(self.scenario["env"])


class Measured(NamedTuple):
    """What results say about one field."""

    field: str
    last: float
    best: float
    best_at: int  # env steps


def model_card(facts: Facts) -> str:
    """The text of README.md."""
    parts = [
        f"---\n{yaml.safe_dump(_head(facts), sort_keys=False, allow_unicode=True)}---",
        f"# {_plain(facts.algo)} on {_plain(facts.env)}",
        _about(facts),
        "## Policies",
        _policies(facts),
        "## Results",
        _results(facts),
        "## How to load it",
        _loading(facts),
        "## Keys",
        "Those that differ from the defaults of marl:",
        _block("yaml", yaml.safe_dump(told_keys(facts.scenario), sort_keys=False, allow_unicode=True)),
    ]
    return "\n\n".join(parts) + "\n"


def _head(facts: Facts) -> dict[str, Any]:
    """What the Hub reads: the library, tags, and results as it lists them."""
    head: dict[str, Any] = {
        "library_name": "marl",
        "pipeline_tag": "reinforcement-learning",
        "tags": ["reinforcement-learning", "marl", _tag(facts.algo), _tag(facts.env)],
    }
    if len({agent for policy in facts.policies for agent in policy.kind.agents}) > 1:
        head["tags"].insert(1, "multi-agent")
    if facts.license:
        head["license"] = facts.license
    metrics = []
    for found in measured(facts):
        metrics.append({"type": found.field, "value": round(found.last, 4), "name": f"{found.field}, last"})
        metrics.append({"type": found.field, "value": round(found.best, 4), "name": f"{found.field}, best"})
    if metrics:
        task = {"type": "reinforcement-learning", "name": "reinforcement-learning"}
        dataset = {"name": facts.env, "type": facts.env}
        results = [{"task": task, "dataset": dataset, "metrics": metrics}]
        head["model-index"] = [{"name": facts.algo, "results": results}]
    return head


def measured(facts: Facts) -> list[Measured]:
    """Of the rewards in training and of the evaluation's metric: the last value and the best one."""
    metric = (facts.scenario.get("evaluation") or {}).get("metric") or REWARD
    found = []
    for field in (f"{EVALUATION}{metric}", REWARD):
        points = _points(facts.results, field)
        if points:
            sign = -1.0 if field.removeprefix(EVALUATION) in SMALLER_IS_BETTER else 1.0
            # Of equal values the first: how soon it was reached is worth knowing.
            best, at = max(points, key=lambda point: (sign * point[0], -point[1]))
            last, _ = points[-1]
            found.append(Measured(field, last, best, at))
    return found


def _points(results: Sequence[Mapping[str, Any]], field: str) -> list[tuple[float, int]]:
    """The values of a field with the env steps at which they were measured."""
    points = []
    for result in results:
        value = look_up(result, field)
        if value is not None and math.isfinite(value):
            points.append((value, int(look_up(result, "timesteps_total") or 0)))
    return points


def _about(facts: Facts) -> str:
    text = (
        f"Trained with [marl](https://pypi.org/project/marl/) by the algorithm {_code(facts.algo)} in the env "
        f"{_code(facts.env)}. The weights are those of iteration {facts.iteration} ({_code(facts.checkpoint)})."
    )
    if facts.results:
        last = facts.results[-1]
        text += (
            f" The run has made {last.get('training_iteration')} iterations, {last.get('timesteps_total')} env steps."
        )
    return text


def _policies(facts: Facts) -> str:
    rows = ["| policy | learned by | plays | observations | actions |", "|---|---|---|---|---|"]
    for policy in facts.policies:
        agents = ", ".join(policy.about.get("plays") or policy.kind.agents)
        cells = (policy.name, policy.about.get("algo") or "none (scripted)", agents)
        spaces = (policy.kind.observation_space, policy.kind.action_space)
        rows.append("| " + " | ".join(_code(str(cell)) for cell in (*cells, *spaces)) + " |")
    return "\n".join(rows)


def _results(facts: Facts) -> str:
    found = measured(facts)
    if not found:
        return "The run has no results."
    rows = ["| field | last | best | best at env step |", "|---|---|---|---|"]
    for one in found:
        rows.append(f"| {_code(one.field)} | {one.last:.4g} | {one.best:.4g} | {one.best_at} |")
    goal = facts.scenario.get("goal") or {}
    if goal:
        wanted = ", ".join(f"{_code(str(field))} of {value}" for field, value in goal.items())
        rows.append(f"\nThe goal of the run: {wanted}.")
    return "\n".join(rows)


def _loading(facts: Facts) -> str:
    folder = facts.repo.rpartition("/")[2]
    play = f"marl rollout {folder}"
    env_config = told_keys(facts.scenario).get("env_config")
    if env_config:
        # An export knows the name of its env, and not how it was configured.
        play += f" --env-config {shlex.quote(json.dumps(env_config))}"
    shell = "\n".join(['pip install "marl[hub]"', f"marl pull {facts.repo} {folder}", play])
    first = facts.policies[0].name
    lines = ["import marl", "", f"policy = marl.load_policy({f'{folder}#{first}'!r})", "policy.compute_action(obs)"]
    return "\n\n".join([_block("bash", shell), _block("python", "\n".join(lines))])


def told_keys(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a scenario that are not the defaults, without places on the machine where it ran."""
    told: dict[str, Any] = {}
    defaults = to_plain(Scenario.model_construct(env=None).model_dump())
    defaults["algo"] = _algo_defaults(scenario)
    for key, value in to_plain(without_places(scenario)).items():
        differing = _differing(value, defaults.get(key))
        if key not in NOT_TOLD and differing not in (None, {}, []):
            told[key] = differing
    for section in (told, told.get("evaluation")):
        if isinstance(section, dict) and section.get("env_config"):
            section["env_config"] = _without_files(section["env_config"])
    return told


def _without_files(env_config: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of an env that name no file and no host."""
    kept = {}
    for key, value in env_config.items():
        if not places_given(None, {key: value}):
            kept[key] = value
    return kept


def _algo_defaults(scenario: Mapping[str, Any]) -> dict[str, Any]:
    name = scenario["algo"].get("name")
    if name not in ALGOS:  # of another program, where it is registered
        return {}
    preset = ALGOS[name]
    defaults: dict[str, Any] = to_plain(preset.configure().model_dump())
    return defaults


def _differing(value: Any, default: Any) -> Any:
    """What differs from the default; None where nothing does."""
    if value == default:
        return None
    if not isinstance(value, Mapping) or not isinstance(default, Mapping):
        return value
    found = {}
    for key, inside in value.items():
        if key not in default or default[key] != inside:
            found[key] = inside
    return found


def _tag(text: str) -> str:
    return re.sub(r"[^\w.-]+", "-", text).strip("-").lower() or "env"


def _plain(text: str) -> str:
    """A name in running text: names of envs and policies are anybody's, and a card is shown as a page."""
    return html.escape(" ".join(text.split()), quote=False).replace("|", "\\|").replace("`", "'")


def _code(text: str) -> str:
    shown = " ".join(text.split()).replace("|", "\\|").replace("`", "'")
    return f"`{shown}`"


def _block(language: str, text: str) -> str:
    # No line of the text can end the block: fences of three backticks are broken.
    safe = text.strip("\n").replace("```", "'''")
    return f"```{language}\n{safe}\n```"
