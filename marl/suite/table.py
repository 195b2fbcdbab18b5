"""A suite as a section of a page: a row per cell, and below it what a reader has to know."""

from __future__ import annotations

from collections.abc import Sequence

from marl.analysis.report.content import plural
from marl.errors import ConfigError
from marl.suite.config import Suite
from marl.suite.load import Cell
from marl.suite.peers import Peer
from marl.suite.results import RESAMPLES, CellResult, Estimate

NOT_RUN = "not run"


def begin_of(suite: str) -> str:
    return f"<!-- begin suite {suite} -->"


def end_of(suite: str) -> str:
    return f"<!-- end suite {suite} -->"


def put_into(page: str, suite: str, section: str) -> str:
    """The page with this section in place of the suite's older one, or at its end."""
    begin, end = begin_of(suite), end_of(suite)
    block = f"{begin}\n{section.rstrip()}\n{end}"
    if begin not in page and end not in page:
        return f"{page.rstrip()}\n\n{block}\n" if page.strip() else f"{block}\n"
    before, has_begin, rest = page.partition(begin)
    _, has_end, after = rest.partition(end)
    if not (has_begin and has_end):
        raise ConfigError(
            f"the page has one of the lines {begin!r} and {end!r} without the other in its place. Mend it, or delete both."
        )
    return f"{before}{block}{after}"


def section(config: Suite, results: Sequence[CellResult], peers: Sequence[Peer], picture: str | None) -> str:
    """Markdown between the markers."""
    parts = [f"## Suite {config.title or config.suite}", ""]
    if config.about:
        parts += [config.about.strip(), ""]
    parts += [_legend(config, results), ""]
    parts += _table(results, peers)
    if picture is not None:
        parts += ["", f"![Learning curves of the suite {config.suite}]({picture})"]
    notes = [*_peer_notes(peers), *_notes(results)]
    if notes:
        parts += ["", *[f"- {note}" for note in notes]]
    return "\n".join(parts)


def _legend(config: Suite, results: Sequence[CellResult]) -> str:
    intervals = f"{config.confidence:.0%} percentile bootstrap intervals ({RESAMPLES:,} resamples of the seeds)"
    return (
        f"{_metrics(config, results)}: interquartile means over seeds (below four seeds the mean) with {intervals}. *Last* is "
        "each run's last evaluation, *best* the largest interquartile mean at any moment of training. A goal is met by the "
        "last value. Seconds are of all seeds together."
    )


def _metrics(config: Suite, results: Sequence[CellResult]) -> str:
    """What is shown; where envs have a field of their own, theirs as well."""
    words = [f"`{config.metric}`"]
    others: dict[str, None] = {}
    for result in results:
        if result.cell.metric != config.metric:
            others[f"in {result.cell.env} `{result.cell.metric}`"] = None
    return ", ".join([*words, *others])


def _table(results: Sequence[CellResult], peers: Sequence[Peer]) -> list[str]:
    peer_titles = [peer.name for peer in peers]
    titles = [
        "env",
        "algorithm",
        "last",
        "best",
        "published",
        *peer_titles,
        "goal",
        "seeds",
        "env steps",
        "CPU s",
        "wall s",
    ]
    lines = [_row(titles), _row(["---"] * len(titles))]
    env = ""
    for result in results:
        shown = result.cell.env if result.cell.env != env else ""
        env = result.cell.env
        numbers = [peer.cells.get(result.cell.name) for peer in peers]
        of_peers = ["" if found is None else _number(found.last) for found in numbers]
        lines.append(_row([shown, result.cell.algo, *_cells(result, of_peers)]))
    return lines


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _cells(result: CellResult, of_peers: Sequence[str]) -> list[str]:
    cell = result.cell
    published = "" if cell.published is None else _short(cell.published.value)
    goal = "" if cell.goal is None else _short(cell.goal)
    if result.last is None or result.best is None:
        return [_why_empty(result), "", published, *of_peers, goal, "", "", "", ""]
    last = _number(result.last)
    state = result.goal_state
    if state == "met":
        last = f"**{last}**"
    return [
        last if result.complete else f"{last} (unfinished)",
        _number(result.best),
        published,
        *of_peers,
        f"{goal} {state}".strip(),
        _seeds(result),
        _steps(result),
        f"{result.cpu_s:,.0f}",
        f"{result.wall_s:,.0f}",
    ]


def _why_empty(result: CellResult) -> str:
    if result.cell.excluded:
        return "excluded"
    if result.failed and result.runs:
        return "failed"
    return NOT_RUN


def _number(found: Estimate) -> str:
    return f"{_short(found.iqm)} [{_short(found.low)}, {_short(found.high)}]"


def _short(value: float) -> str:
    """Four digits at most, and two behind the point of a number that is not small."""
    if abs(value) >= 1:
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return f"{value:.3f}".rstrip("0").rstrip(".") or "0"


def _seeds(result: CellResult) -> str:
    asked, measured = len(result.cell.seeds), len(result.measured)
    return str(asked) if measured == asked else f"{measured} of {asked}"


def _steps(result: CellResult) -> str:
    """The budget, or what was used of it."""
    used = max(run.steps for run in result.runs)
    budget = result.cell.budget or 0
    early = len(result.early)
    if early:
        mean = sum(run.steps for run in result.runs) / len(result.runs)
        return f"{_large(mean)} of {_large(budget)}, early {early} of {len(result.runs)}"
    if not result.complete:
        return f"{_large(used)} of {_large(budget)}"
    return _large(used)


def _large(number: float) -> str:
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:.3g}{name}"
    return f"{number:.0f}"


def _peer_notes(peers: Sequence[Peer]) -> list[str]:
    return [f"{peer.name}: last value. {peer.about}".strip() for peer in peers]


def _notes(results: Sequence[CellResult]) -> list[str]:
    """Everything that does not fit into a cell, each sentence once with the cells that it is about."""
    about: dict[str, list[Cell]] = {}
    for result in results:
        for sentence in _sentences(result):
            about.setdefault(sentence, []).append(result.cell)
    return [f"{_named(cells, results)}: {sentence}" for sentence, cells in about.items()]


def _sentences(result: CellResult) -> list[str]:
    cell = result.cell
    said = []
    if cell.excluded:
        return [f"excluded, because {cell.excluded}"]
    if cell.published is not None:
        remark = f" ({cell.published.note})" if cell.published.note else ""
        said.append(f"published: {cell.published.source}{remark}")
    if result.early:
        rule = cell.early_stop
        assert rule is not None
        held = plural(rule.in_a_row, "evaluation")
        said.append(f"runs end early once {_short(rule.goal)} was held in {held} in a row")
    if cell.tried is not None:
        said.append(f"{plural(cell.tried, 'setting')} tried, on other seeds")
    if not result.complete:
        said += [f"{_why_empty(result)}: {error.splitlines()[0]}" for error in result.failed]
    return [*said, *cell.notes]


def _named(cells: Sequence[Cell], results: Sequence[CellResult]) -> str:
    """``all``, an env or an algorithm whose cells are meant as a whole, or the cells by name."""
    left = {cell.name for cell in cells}
    if len(left) == len(results):
        return "all"
    words = []
    for name in _names_in(cells):
        whole = _cells_of(name, results)
        if whole <= left:
            words.append(name)
            left -= whole
    words += [cell.name for cell in cells if cell.name in left]
    return ", ".join(words)


def _names_in(cells: Sequence[Cell]) -> list[str]:
    """Envs first, then algorithms, each once."""
    envs = [cell.env for cell in cells]
    algos = [cell.algo for cell in cells]
    return list(dict.fromkeys([*envs, *algos]))


def _cells_of(name: str, results: Sequence[CellResult]) -> set[str]:
    """Names of all cells of an env or of an algorithm."""
    return {result.cell.name for result in results if name in (result.cell.env, result.cell.algo)}
