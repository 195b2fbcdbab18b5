"""Reference pages that nobody has to write: keys, commands, Python names, examples and scenarios, as they are in the package.

MkDocs calls the ``on_...`` functions while it builds the site (``hooks:`` in mkdocs.yml). The pages exist in the site only, so
they cannot be out of date.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
WIDTH = 80  # columns of a terminal in which the help of commands has to fit
ROOMS = {
    "envs": "Envs",
    "mappers": "Who plays",
    "policies": "Policies and models",
    "data": "Data",
    "callbacks": "Callbacks",
    "algos": "Learners",
    "rollout": "Workers",
    "populations": "Populations",
    "gametheory": "Game theory",
    "training": "Training",
    "play": "Playing",
    "sharing": "Sharing policies",
    "client": "Clients of a server",
    "driving": "Envs that a server plays",
    "offline": "Recorded episodes",
    "runs": "Runs",
    "scenario": "Scenarios",
    "tune": "Tuning",
    "testing": "Testing",
}


@cache
def pages() -> dict[str, str]:
    """Every generated page: its path below docs/, and its Markdown."""
    return {
        "reference/commands.md": commands_page(),
        "reference/keys.md": keys_page(),
        "reference/algorithm_keys.md": algorithm_keys_page(),
        "reference/old_keys.md": old_keys_page(),
        "reference/results.md": results_page(),
        "reference/python.md": python_page(),
        "reference/games.md": games_page(),
        "reference/examples.md": files_page("Examples", "examples", "py", "python"),
        "reference/standalone.md": files_page("Algorithms on one page", "examples/standalone", "py", "python"),
        "reference/scenarios.md": files_page("Scenarios", "scenarios", "yaml", "yaml"),
        "contributing.md": contributing_page(),
    }


@cache
def commands_page() -> str:
    """What ``--help`` prints for each command, in a terminal of 80 columns."""
    helps = {"marl": help_of(), **{f"marl {name}": help_of(*name.split()) for name in command_names()}}
    parts = [f"## {command}\n\n```text\n{text.rstrip()}\n```" for command, text in helps.items()]
    return "\n\n".join(["# Commands", "The help of every command, as it prints it.", *parts]) + "\n"


def command_names() -> list[str]:
    """Every command, and after a group of commands each of its own: ``bench``, ``bench learners``."""
    from typer.main import get_command

    from marl.cli.app import app

    return _names_in(get_command(app))


def _names_in(group: Any, before: str = "") -> list[str]:
    found: list[str] = []
    for name, command in group.commands.items():
        found.append(before + name)
        found += _names_in(command, f"{before}{name} ") if hasattr(command, "commands") else []
    return found


def help_of(*command: str) -> str:
    """What ``marl COMMAND --help`` prints."""
    from typer.testing import CliRunner

    from marl.cli.app import app

    # A terminal leaves two columns free, a runner of tests does not.
    shown = CliRunner().invoke(app, [*command, "--help"], prog_name="marl", terminal_width=WIDTH - 2)
    assert shown.exit_code == 0, shown.output
    return shown.output


def keys_page() -> str:
    """Every key of a scenario and of its sections."""
    from marl.scenario.config import Scenario
    from marl.scenario.reference import SECTIONS, keys_of
    from marl.tune.config import TuneConfig

    intro = (
        "All keys that a scenario may have. `marl config` prints the same in a terminal. Keys of `algo`, `model` and "
        "`multiagent` may also be given flat, without their section: `lr: 0.001` is `algo: {lr: 0.001}`. The keys of each "
        "algorithm are on [a page of their own](algorithm_keys.md)."
    )
    parts = [f"## {name}:\n\n{table(keys_of(section))}" for name, section in {**SECTIONS, "tune": TuneConfig}.items()]
    return "\n\n".join(["# Keys of a scenario", intro, f"## Top level\n\n{table(keys_of(Scenario))}", *parts]) + "\n"


def algorithm_keys_page() -> str:
    """Every key of every algorithm, with the defaults of its preset."""
    from marl.algos.presets import ALGOS
    from marl.scenario.reference import keys_of

    intro = (
        "Keys of `algo: {name: NAME, ...}` with the defaults of each algorithm; every policy may override them. `marl config "
        "NAME` prints the same. What the algorithms do: [Algorithms](../algorithms.md)."
    )
    parts = [
        f"## {name}\n\n{ALGOS[name].summary}\n\n{table(keys_of(ALGOS[name].family.config, ALGOS[name].defaults))}"
        for name in ALGOS
    ]
    return "\n\n".join(["# Keys of the algorithms", intro, *parts]) + "\n"


def table(keys: Iterable[Any]) -> str:
    rows = [f"| `{key.name}` | {_cell(key.type)} | {_cell(key.default)} | {_cell(key.meaning)} |" for key in keys]
    return "\n".join(["| key | type | default | meaning |", "|---|---|---|---|", *rows])


def _cell(text: str) -> str:
    """Text inside of a Markdown table: nothing in it may end the cell or be read as markup."""
    return re.sub(r"([|*_<\[\]])", r"\\\1", " ".join(text.split()))


def old_keys_page() -> str:
    """Keys of other frameworks, and what to say instead."""
    from marl.scenario.rllib_keys import OLD_KEYS

    intro = "Keys that are refused, and what is said instead. See [Coming from RLlib](../coming_from_rllib.md)."
    rows = [f"| `{key}` | {_cell(advice)} |" for key, advice in sorted(OLD_KEYS.items())]
    return "\n".join(["# Keys of other frameworks", "", intro, "", "| key | here |", "|---|---|", *rows]) + "\n"


def results_page() -> str:
    """Every field of a result."""
    from marl.runs.fields import table as fields

    intro = (
        "What a line of `result.json` holds; `marl explain FIELD` says the same. Words in capitals stand for names that a run "
        "decides. How numbers are defined: [What a run measures](../metrics.md)."
    )
    rows = [f"| `{field.name}` | {_cell(field.unit)} | {_cell(field.text)} |" for field in sorted(fields())]
    head = ["| field | unit | meaning |", "|---|---|---|"]
    return "\n".join(["# Fields of a result", "", intro, "", *head, *rows]) + "\n"


def python_page() -> str:
    """The public names of ``marl``, by room, from their docstrings."""
    import marl

    names = {f"{marl._WHERE[name]}.{name}" for name in marl.__all__ if name in marl._WHERE}
    rooms = {title: sorted(n for n in names if n.split(".")[1] == room) for room, title in ROOMS.items()}
    unplaced = {n for n in names if n.split(".")[1] not in ROOMS}
    assert not unplaced, f"docs/reference/generate.py: give ROOMS a title for {unplaced}"
    intro = "Everything that `import marl` offers. Letters of shapes: `T` time, `E` copies of the env, `A` agents, `N` rows."
    parts = [f"## {title}\n\n{_documented(names, 3)}" for title, names in rooms.items() if names]
    return "\n\n".join(["# Python", intro, *parts]) + "\n"


def games_page() -> str:
    """The modules of the game theory and of the analysis, from their docstrings."""
    rooms = [ROOT / "marl" / room for room in ("gametheory", "analysis")]
    files = sorted(file for room in rooms for file in room.rglob("*.py") if not file.name.startswith("_"))
    modules = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]
    intro = "Modules behind the chapters on [game theory](../games/README.md), with what each of them offers."
    return "\n\n".join(["# Game theory in Python", intro, _documented(modules, 2, full_path=True)]) + "\n"


def _documented(names: Iterable[str], level: int, full_path: bool = False) -> str:
    options = f"    options:\n      heading_level: {level}\n      show_root_full_path: {str(full_path).lower()}"
    return "\n\n".join(f"::: {name}\n{options}" for name in names)


def files_page(title: str, folder: str, ending: str, language: str) -> str:
    """The text of every file of a folder, under a heading with the file's name."""
    parts = [
        f"## {file.name} {{#{file.stem}}}\n\n````{language}\n{file.read_text(encoding='utf-8').rstrip()}\n````"
        for file in sorted((ROOT / folder).glob(f"*.{ending}"))
        if not file.name.startswith("_")
    ]
    return "\n\n".join([f"# {title}", f"The files of `{folder}/`.", *parts]) + "\n"


def contributing_page() -> str:
    """CONTRIBUTING.md as a page of the site: its links to docs/ lead to pages, of others the text remains."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    inner = re.sub(r"\]\(docs/", "](", text)
    return re.sub(r"\[([^\]]*)\]\((?!https?:)[A-Z][\w.]*\)", r"\1", inner)


# What MkDocs calls.


def on_config(config: Any) -> Any:
    """Pages that the navigation does not name stand under "More"."""
    named = set(_files_in(config.nav))
    there = {path.relative_to(config.docs_dir).as_posix() for path in Path(config.docs_dir).rglob("*.md")}
    more = sorted({*there, *pages()} - named)
    if more:
        config.nav = [*config.nav, {"More": more}]
    return config


def _files_in(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    entries = nav.values() if isinstance(nav, Mapping) else nav
    return [file for entry in entries for file in _files_in(entry)]


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    return inside(markdown, page.file.src_uri)


LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)#\s]*)(#[^)\s]*)?\)")


def inside(markdown: str, page: str) -> str:
    """The page with links to files of the repository led to the site's copy of them; without one, their text remains."""
    depth = page.count("/")

    def lead(found: re.Match[str]) -> str:
        text, target, _ = found.groups()
        if target.count("../") <= depth:
            return found[0]
        *folder, name = target.split("../")[-1].rstrip("/").split("/")
        up = "../" * depth
        if folder == ["examples", "standalone"]:
            return f"[{text}]({up}reference/standalone.md#{name.partition('.')[0]})"
        if folder == ["examples"] and name == "standalone":
            return f"[{text}]({up}reference/standalone.md)"
        if folder in (["examples"], ["scenarios"]):
            return f"[{text}]({up}reference/{folder[0]}.md#{name.partition('.')[0]})"
        if not folder and name in ("examples", "scenarios"):
            return f"[{text}]({up}reference/{name}.md)"
        return f"[{text}]({up}index.md)" if name == "README.md" and not folder else text

    return LINK.sub(lead, markdown)
