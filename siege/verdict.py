"""What counts as holding out: an exit code with a meaning, a sentence for the user, no traceback, no hang."""

from __future__ import annotations

import re
import signal

from siege.child import Ended

TRACEBACK = "Traceback (most recent call last)"
MEANINGS = (0, 1, 2)  # done, a goal was missed, bad input
STOPPED = 130
_FRAME = re.compile(r'File "[^"]*/((?:marl|siege)/[\w/.]+)", line (\d+), in (\S+)')


def complaint(ended: Ended, allowed: tuple[int, ...] = MEANINGS) -> str | None:
    """What is wrong with the way in which a command ended; None if nothing is."""
    if ended.alarms:
        return f"canary: {ended.alarms[0]}"
    if TRACEBACK in ended.said:
        return f"traceback: {last_words(ended.said)}"
    if ended.overtime == "hung":
        return "hang: does not end after two SIGINT"
    if ended.code < 0 and not ended.overtime:
        return f"died: {signal.Signals(-ended.code).name}"
    codes = (*allowed, STOPPED) if ended.overtime else allowed
    if ended.code not in codes and not (ended.overtime and ended.code < 0):
        return f"exit code {ended.code}: {_last_line(ended.said)}"
    if ended.code == 2 and len(_last_line(ended.stderr)) < 20:
        return "exit code 2 without a sentence on stderr"
    return None


def last_words(text: str) -> str:
    """The last frame of a traceback in the package, and the error: what equal failures have in common."""
    story = text[text.rindex(TRACEBACK) :]
    frames = _FRAME.findall(story)
    where = f"{frames[-1][0]}:{frames[-1][2]}" if frames else "outside of marl"
    errors = re.findall(r"^(\w[\w.]*(?:Error|Exception|Interrupt|Exit|Warning)\b.*)$", story, re.MULTILINE)
    return f"{where}: {errors[-1][:160] if errors else _last_line(story)[:160]}"


def group_of(text: str) -> str:
    """The complaint without what differs between two cases of the same failure: numbers, names in quotes, paths."""
    text = re.sub(r"(/[\w.~-]+)+", "PATH", re.sub(r"'[^']*'|\"[^\"]*\"", "'...'", text)) if "canary" in text else text
    return re.sub(r"'[^']{0,200}'|\"[^\"]{0,200}\"", "'...'", re.sub(r"-?\d+(\.\d+)?", "N", text))[:200]


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
