"""The commands that show what was learned: ``marl rollout``, ``marl replay``, ``marl export``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from marl.cli.options import Allow, EnvAgain, given, one_of, read_json
from marl.errors import ConfigError, printable


def rollout(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint, or a run directory (its newest one is played).")],
    episodes: Annotated[Optional[int], typer.Option(min=1, help="Episodes to play. Default: 10.")] = None,  # noqa: UP045
    steps: Annotated[Optional[int], typer.Option(min=1, help="Env steps to play instead.")] = None,  # noqa: UP045
    policy: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="ID=PATH",
            help="Let a policy of another run play: ID is a policy or an agent, PATH a run, a checkpoint, an export, "
            "PATH#policy, or random; repeatable.",
        ),
    ] = None,
    explore: Annotated[bool, typer.Option("--explore", help="Play with exploration instead of greedily.")] = False,
    both: Annotated[bool, typer.Option("--both", help="Play greedily, then the same seeds with exploration.")] = False,
    env: Annotated[Optional[str], typer.Option(help="Another env with equal spaces.")] = None,  # noqa: UP045
    env_config: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Changes to env_config as JSON, or @file.json; all of it with --env."),
    ] = None,
    sets: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a key of the env or of who plays, e.g. --set horizon=200; repeatable.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first episode.")] = 0,
    render: Annotated[
        bool, typer.Option("--render", help="Show each step: texts are printed, pictures open a window.")
    ] = False,
    video: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="Film it: NAME.gif or NAME.mp4."),
    ] = None,
    fps: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            min=0.1, max=100, help="Frames per second of --video or --render. Default: 2 for texts, 15 for pictures."
        ),
    ] = None,
    save: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="DIR", help="Keep the episodes here, to learn from them by `input: DIR`."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object; what happens goes to stderr.")
    ] = False,
    allow: Allow = None,
) -> None:
    """Play a trained run and print what each episode brought, by policy and agent; needs nothing but the path.

    Exit codes: 0 when all was played, 2 for bad input, 130 after Ctrl-C (a video is kept as far as it has come).
    """
    from marl.play.changes import Changes
    from marl.play.playback import RolloutOptions, play
    from marl.play.policy_sources import read_sources
    from marl.runs.damage import noted

    one_of({"--episodes": episodes, "--steps": steps})
    one_of({"--explore": explore, "--both": both})
    shown = render or video is not None
    if fps is not None and not shown:
        raise ConfigError(
            "--fps is the speed of --video FILE or --render, and neither is given. Add one, or drop --fps."
        )
    ways: tuple[bool, ...] = (explore,)
    if both:
        ways = (False, True)
    options = RolloutOptions(episodes or 10, steps, ways, seed, render, video, fps, save)
    changes = Changes(env, read_json(env_config, "--env-config"), sets or (), read_sources(policy or []))
    # What happens is for people: beside JSON it goes to stderr, so that the output stays one object.
    say = _print
    if as_json:
        say = _beside
    try:
        with noted() as damaged:
            summaries = play(checkpoint, options, frozenset(allow or []), changes, say)
    except KeyboardInterrupt:
        print("stopped.", file=sys.stderr)
        raise typer.Exit(130) from None
    files = {name: str(path) for name, path in given(video=video, saved=save).items()}
    if as_json:
        played = [summary.as_json() for summary in summaries]
        about = {"checkpoint": str(checkpoint), "seed": seed, "play": played}
        print(json.dumps({**about, **files, **damaged.as_json()}))
    else:
        _tell(summaries, files)


def _tell(summaries: list[Any], files: dict[str, str]) -> None:
    from marl.play.return_summary import table

    for name, path in files.items():
        print(f"{name}: {path}")
    for line in table(summaries):
        print(line)
    if len(summaries) == 1:
        print(summaries[0].summary())
        return
    for summary in summaries:
        print(f"{summary.manner}: {summary.summary()}")


def _print(text: str) -> None:
    print(text, flush=True)


def _beside(text: str) -> None:
    """What somebody may want to read while it runs goes beside the JSON."""
    print(text, file=sys.stderr, flush=True)


def replay(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A trace, a trajs_N.npz, or a directory of them.")],
    episode: Annotated[Optional[int], typer.Option(min=0, help="Show this one, step by step. Default: 0.")] = None,  # noqa: UP045
    steps: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="Show so many steps of it at most. Default: all."),
    ] = None,
    summary: Annotated[bool, typer.Option("--list", help="Only list the episodes.")] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON object: all episodes in brief, or with --episode or --steps one."),
    ] = False,
) -> None:
    """View recorded episodes (`output:`, or rollout --save): who saw what, did what and earned what, step by step."""
    from marl.offline.view import open_recording

    one_of({"--list": summary, "--episode": episode})
    if summary and steps is not None:
        raise ConfigError("--list and --steps cannot be given together: a list shows no steps. Drop one of them.")
    recording = open_recording(path)
    if as_json:
        if steps is not None:  # --steps are those of an episode, the first one by default
            episode = episode or 0
        print(json.dumps(recording.as_json(episode, steps)))
        return
    if summary:
        lines = recording.listed()
    else:
        lines = recording.told(episode or 0, steps)
    for line in lines:
        print(printable(line))


def export(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint, or a run directory (its newest one is exported).")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to: each policy gets a folder of its name in it.")],
    policy: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="ID", help="A policy to export; repeatable. Default: all."),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            metavar="safetensors|onnx", help="safetensors: for marl.load_policy. onnx: for others, with onnxruntime."
        ),
    ] = "safetensors",
    sets: EnvAgain = None,
    allow: Allow = None,
) -> None:
    """Write policies as files, to be played without the run: by marl.load_policy(DIR), or by others as ONNX graphs."""
    from marl.play.write_export import export_checkpoint
    from marl.scenario.load import parse_set

    # A file of the run is not followed to other files, unless the user names them again.
    changes = dict(map(parse_set, sets or []))
    for folder in export_checkpoint(checkpoint, out, policy or None, frozenset(allow or []), changes, format):
        print(f"exported: {printable(folder)}")
