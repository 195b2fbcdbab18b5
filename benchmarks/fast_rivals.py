"""The fast envs next to their originals in Python and next to JaxMARL's: env steps per CPU second, on one core, in turns.

    python benchmarks/fast_rivals.py [--envs NAME,NAME] [--rounds N] [--json FILE] [--where DIR]

All sides are processes of one thread on one core, with actions drawn beforehand. They are started and warmed up (JaxMARL's
compiles then), and take turns; the best round of each counts. The originals are one copy; ours and JaxMARL's 256 and 1,024.
mpe2 is that of this Python; overcooked_ai and JaxMARL get environments of their own below ``--where``, made by pip at first.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rival_envs import CannotMeasure
from rival_rows import Side
from rival_sides import Places, Runner, started
from rivals import AGAINST, ENVS, machine

COPIES = (256, 1024)
KITCHENS = ("cramped_room", "asymm_advantages", "coord_ring")
MPE = {
    "simple_spread": "v3",
    "simple_tag": "v3",
    "simple_speaker_listener": "v4",
    "simple_adversary": "v3",
    "simple_push": "v3",
    "simple_crypto": "v3",
    "simple_reference": "v3",
    "simple_world_comm": "v3",
}
STEPS = {256: 800, 1024: 400}
STEPS_OF_ORIGINAL = 1_000
HEADINGS = ("env", "original", "JaxMARL", "ours, 256", "ours, 1,024", "times the original", "times JaxMARL")


def sides(env: str) -> dict[str, Side]:
    """Everybody who plays an env: a name of ``KITCHENS`` or ``MPE``."""
    found = {"original": _original(env)}
    for copies in COPIES:
        work: dict[str, Any] = {"copies": copies, "steps": STEPS[copies]}
        own, jax = dict(work), dict(work)
        if env in KITCHENS:
            own |= {"env": "fast:overcooked", "env_config": {"layout": env}}
            jax |= {"env": "overcooked", "layout": env}
        else:
            own |= {"env": f"fast:{env}"}
            jax |= {"env": f"MPE_{env}_{MPE[env]}"}
        found[f"ours {copies}"] = Side("marl", "marl", "fast_env_sides.py", (json.dumps(own),))
        found[f"jax {copies}"] = Side("JaxMARL", "jax", "rivals/jax_env.py", (json.dumps(jax),))
    return found


def _original(env: str) -> Side:
    if env in KITCHENS:
        work = json.dumps({"layout": env, "steps": STEPS_OF_ORIGINAL})
        return Side("overcooked_ai", "overcooked_ai", "rivals/overcooked_ai_env.py", (work,))
    work = json.dumps({"env": f"mpe2.{env}_{MPE[env]}", "steps": STEPS_OF_ORIGINAL})
    return Side("mpe2", "marl", "fast_env_sides.py", (work,))


def measure(env: str, rounds: int, places: Places) -> dict[str, Any]:
    """Best rates of all sides, and what was left out and why."""
    rates: dict[str, Any] = {}
    with ExitStack() as stack:
        runners: dict[str, Runner] = {}
        for who, side in sides(env).items():
            try:
                runners[who] = stack.enter_context(started(side, places))
            except CannotMeasure as reason:
                rates[f"{who} left out"] = str(reason)
        played: dict[str, list[float]] = {who: [] for who in runners}
        for _ in range(rounds):
            for who, runner in runners.items():
                played[who].append(runner.play().rate("cpu"))
        for who, runner in runners.items():
            rates[who] = max(played[who])
            rates[f"{who} versions"] = dict(runner.versions)
    return rates


def cells(env: str, rates: Mapping[str, Any]) -> list[str]:
    ours, jax = ([rates.get(f"{who} {copies}") for copies in COPIES] for who in ("ours", "jax"))
    first, best_jax = rates.get("original"), max((rate for rate in jax if rate), default=None)
    best = max(rate for rate in ours if rate)
    shown = [first, best_jax, *ours]
    ratios = [f"{best / other:,.1f}" if other else "-" for other in (first, best_jax)]
    return [env, *(f"{rate:,.0f}" if rate else "-" for rate in shown), *ratios]


def table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """For a page. JaxMARL's is the better of 256 and 1,024 copies; ratios are those of the better of ours."""
    lines: list[Sequence[str]] = [HEADINGS, ["---"] * len(HEADINGS)]
    lines += [cells(env, rates) for env, rates in found.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(arguments: Sequence[str] = tuple(sys.argv[1:])) -> None:
    known = [*KITCHENS, *MPE]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", metavar="NAME,NAME", help=f"only these of {', '.join(known)}")
    parser.add_argument("--rounds", type=int, default=5, help="of each side; default: 5")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there as well")
    parser.add_argument("--where", type=Path, metavar="DIR", default=ENVS, help=f"environments; default: {ENVS}")
    parser.add_argument("--core", type=int, default=(os.cpu_count() or 1) - 1, help="to run on; default: the last")
    options = parser.parse_args(arguments)
    chosen = options.envs.split(",") if options.envs else known
    unknown = [env for env in chosen if env not in known]
    if unknown:
        raise SystemExit(f"no env {', '.join(unknown)}. Known: {', '.join(known)}.")
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        places = Places(options.where, Path(scratch), AGAINST, options.core)
        for env in chosen:
            found[env] = measure(env, options.rounds, places)
            print("| " + " | ".join(cells(env, found[env])) + " |", flush=True)
    print("", table(found), sep="\n")
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": machine(), "envs": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
