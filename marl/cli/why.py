"""``marl why``: what an agent saw and its policy thought in a step, and what something else would have led to."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from marl.cli.options import Allow, read_json
from marl.errors import printable

if TYPE_CHECKING:
    from rich.table import Table

    from marl.play.trace import AgentStep
    from marl.play.what_if import Progress
    from marl.play.why import Why


def why(
    checkpoint: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory, a checkpoint, or an export.")],
    agent: Annotated[str, typer.Option(help="The agent, e.g. car_2.")],
    step: Annotated[int, typer.Option(min=0, help="The step of the episode, from 0 on, in which it is asked.")],
    episode: Annotated[
        int, typer.Option(min=0, help="The episode, from 0 on: number i has the seed --seed + i, as in marl rollout.")
    ] = 0,
    instead: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="ACTION", help="What it does instead: a number, a name of the env's, or numbers as 0.5,-1."
        ),
    ] = None,
    policy: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="NAME|PATH",
            help="Who plays it from there on: a policy of the run, a run, a checkpoint, an export, PATH#policy, or random.",
        ),
    ] = None,
    continuations: Annotated[int, typer.Option(min=1, help="How often both ways are played on.")] = 1_000,
    explore: Annotated[bool, typer.Option("--explore", help="Play with exploration instead of greedily.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of episode 0.")] = 0,
    recording: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="DIR", help="Take what was done from these episodes of marl rollout --save."),
    ] = None,
    env: Annotated[Optional[str], typer.Option(help="Another env with equal spaces.")] = None,  # noqa: UP045
    env_config: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Changes to env_config as JSON, or @file.json; all of it with --env."),
    ] = None,
    sets: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the env or of who plays; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    allow: Allow = None,
) -> None:
    """Show what an agent saw and its policy thought in a step, and what another action or policy would have led to.

    Exit codes: 0 when it was answered, 2 for bad input, 130 after Ctrl-C.
    """
    from marl.play.changes import Changes
    from marl.play.episode import Which
    from marl.play.why import ask
    from marl.runs.damage import noted

    # The policy of this command is the one that takes over, not who plays from the start as in `marl rollout`.
    changes = Changes(env, read_json(env_config, "--env-config"), sets or ())
    try:
        with noted() as damaged, _progress() as progress:
            found = ask(
                checkpoint, Which(episode, seed, explore), agent, step, instead=instead, policy=policy,
                continuations=continuations, recording=recording, allow=frozenset(allow or []), changes=changes,
                progress=progress,
            )  # fmt: skip
    except KeyboardInterrupt:
        print("stopped.", file=sys.stderr)
        raise typer.Exit(130) from None
    if as_json:
        print(json.dumps({**found.to_json(), **damaged.as_json()}))
    else:
        _print(found)


@contextmanager
def _progress() -> Iterator[Progress]:
    """A bar on stderr while continuations are played; nothing where nobody looks at a terminal."""
    from rich.console import Console
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    with Bar(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("continuations", total=None, visible=False)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, visible=True)

        yield show


def _print(found: Why) -> None:
    from rich.console import Console
    from rich.markup import escape

    # Names come out of files and envs: they are shown as they are, never as markup.
    console = Console(soft_wrap=True, emoji=False, highlight=False)
    for line in _situation(found):
        console.print(escape(printable(line)))
    thoughts = _thoughts(found)
    if thoughts is not None:
        console.print(thoughts)
    for line in _expectation(found.situation, found.trace.missing_values):
        console.print(escape(printable(line)))
    if found.answer is None:
        return
    console.print()
    console.print(_effects(found))
    console.print(escape(printable(_method(found))))
    console.print(escape(printable(found.sentence)))


def _situation(found: Why) -> Iterator[str]:
    from marl.play.trace import plain

    trace, one = found.trace, found.situation
    manner = "exploring" if trace.explore else "greedy"
    yield f"env {trace.env!r}, episode {trace.number} (seed {trace.seed}, {manner}), step {found.step} of {len(trace)}"
    yield f"{one.agent} ({one.policy}) saw {_short(plain(one.observation))}"
    if one.opinion is not None and one.opinion.member is not None:
        yield f"member {one.opinion.member} of the mixture plays"


def _short(shown: Any) -> str:
    # Pictures and long vectors would push the answer off the screen.
    text = json.dumps(shown)
    if len(text) <= 300:
        return text
    return f"{text[:300]} ... (all of it with --json)"


def _thoughts(found: Why) -> Table | None:
    """What the policy thinks of each action; None where actions are not options of one choice."""
    from rich.table import Table
    from rich.text import Text

    one = found.situation
    opinion = one.opinion
    if opinion is None or not isinstance(one.action, int):
        return None
    chances: tuple[float, ...] = ()
    if opinion.probabilities:
        (chances,) = opinion.probabilities
    q_values = opinion.q_values or ()
    # Options are counted from 0; what the env calls the first one may be another number.
    first = one.action - found.taken
    names = found.trace.names.get(found.agent, ())
    count = max(len(chances), len(q_values), len(names))
    table = Table("action", "probability", "Q value", "", box=None)
    for number in range(count):
        name = " ".join([str(first + number), *names[number : number + 1]])
        table.add_row(Text(printable(name)), _cell(chances, number), _cell(q_values, number), _mark(found, number))
    return table


def _cell(numbers: tuple[float, ...], place: int) -> str:
    if not numbers:
        return "-"
    return f"{numbers[place]:.4g}"


def _mark(found: Why, number: int) -> str:
    # One row may be several of them.
    taken, mask = found.taken, found.situation.action_mask
    asked = None
    if found.answer is not None:
        asked = found.answer.question.action
    applies = {
        "was done": number == taken,
        "instead": asked is not None and number == int(asked),
        "illegal": mask is not None and not mask[number],
    }
    return ", ".join(filter(applies.get, applies))


def _expectation(one: AgentStep, missing: str) -> Iterator[str]:
    if not isinstance(one.action, int):
        yield from _thoughts_in_words(one)
    if one.expected is not None and one.came is not None:
        yield f"expected a return of {one.expected:.4g} from here on (discounted), and {one.came:.4g} came"
    elif missing:
        yield f"no value: {missing}"


def _thoughts_in_words(one: AgentStep) -> Iterator[str]:
    """Of an action that is more than one choice."""
    from marl.play.trace import plain

    yield f"did {json.dumps(plain(one.action))}"
    if one.opinion is None:
        return
    if one.opinion.mean is not None:
        spread = ""
        if one.opinion.std is not None:
            spread = f", standard deviation {_numbers(one.opinion.std)}"
        yield f"greedy {_numbers(one.opinion.mean)}{spread}"
    for number, chances in enumerate(one.opinion.probabilities or ()):
        yield f"choice {number}: probabilities {_numbers(chances)}"


def _numbers(numbers: tuple[float, ...]) -> str:
    texts = [f"{number:.4g}" for number in numbers]
    return f"[{', '.join(texts)}]"


def _effects(found: Why) -> Table:
    from rich.table import Table
    from rich.text import Text

    from marl.play.why import effect_rows

    assert found.answer is not None
    # Plain Text in the cells: rich would read brackets in names as markup.
    table = Table("return of the episode", "as it was", "instead", "difference", box=None)
    for name, *numbers in effect_rows(found.answer):
        table.add_row(Text(printable(name)), *numbers)
    return table


def _method(found: Why) -> str:
    from marl.play.return_summary import CONFIDENCE

    answer = found.answer
    assert answer is not None
    if answer.exact:
        return f"One continuation is exact: from here on no policy draws, and {answer.luck}."
    told = f"{answer.continuations} continuations in both ways, with common random numbers; {answer.luck}. "
    told += f"+- is a {CONFIDENCE:.0%} interval (Student's t; of the difference: of paired differences)."
    if answer.cut:
        told += f" {answer.cut} did not end in time and count as far as they came."
    return told
