"""What the server counts and measures, as the text that Prometheus reads."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from marl.serve.hub import Hub

LATENCIES = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)  # seconds
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)  # decisions of one forward pass


class Histogram:
    """How often values fell below each bound. Read from other threads while it counts; a line may be one behind."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)  # the last: above all bounds
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect.bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)

    def lines(self, name: str, labels: str = "") -> Iterator[str]:
        """Prometheus counts from below: each bucket holds those of the smaller ones too."""
        separator = "," if labels else ""
        so_far = 0
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            so_far += count
            yield f'{name}_bucket{{{labels}{separator}le="{bound}"}} {so_far}'
        yield f"{name}_sum{_braces(labels)} {self.total:.9g}"
        yield f"{name}_count{_braces(labels)} {so_far}"


@dataclass
class Measures:
    """What the network side counts itself; the hub and whoever plays have counters of their own."""

    latency: dict[str, Histogram] = field(default_factory=dict)  # by the kind of message, from read to answered
    refused: dict[str, int] = field(default_factory=dict)  # by the code of the refusal
    failures: int = 0  # errors of our own
    waiting: int = 0  # messages whose answer is not out yet

    def answered(self, kind: str, seconds: float) -> None:
        self.latency.setdefault(kind, Histogram(LATENCIES)).add(seconds)

    def count_refusal(self, code: str) -> None:
        self.refused[code] = self.refused.get(code, 0) + 1


class PrometheusText:
    """Lines of the text format, version 0.0.4; each name is introduced once."""

    media_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, name: str, kind: str, told: str, value: float) -> None:
        self._introduce(name, kind, told)
        self._lines.append(f"{name} {value:.9g}")

    def add_by(self, name: str, told: str, label: str, values: Mapping[str, float]) -> None:
        """A counter for each value of a label."""
        self._introduce(name, "counter", told)
        for key, value in sorted(values.items()):
            self._lines.append(f"{name}{_braces(_label(label, key))} {value:.9g}")

    def add_histograms(self, name: str, told: str, label: str, histograms: Mapping[str, Histogram]) -> None:
        self._introduce(name, "histogram", told)
        for key, histogram in sorted(histograms.items()):
            self._lines.extend(histogram.lines(name, _label(label, key)))

    def add_histogram(self, name: str, told: str, histogram: Histogram) -> None:
        self._introduce(name, "histogram", told)
        self._lines.extend(histogram.lines(name))

    def _introduce(self, name: str, kind: str, told: str) -> None:
        self._lines.append(f"# HELP {name} {told}")
        self._lines.append(f"# TYPE {name} {kind}")

    def __str__(self) -> str:
        return "\n".join(self._lines) + "\n"


def _label(label: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{label}="{escaped}"'


def _braces(labels: str) -> str:
    return f"{{{labels}}}" if labels else ""


@runtime_checkable
class Measuring(Protocol):
    """A stage that measures something itself, such as the sizes of its batches."""

    def measures(self) -> Mapping[str, float | Histogram]:
        """Numbers and histograms by name; ``marl_`` is put in front of the name."""
        ...


COUNTED = {
    "accepted": "Steps that were taken.",
    "answered": "Steps that were answered.",
    "repeated": "Messages that were sent again and got the answer of the first one.",
    "replayed": "Steps of the journal that were played again after a restart.",
    "gaps": "Messages that came before their turn.",
    "begun": "Episodes that began.",
    "ended": "Episodes that their clients ended.",
    "abandoned": "Episodes that ended because their client was silent, or the server stopped.",
    "doubled": "Steps that were answered twice; always 0.",
    "lost": "Steps that got no answer; always 0.",
}
AS_OF_NOW = {
    "sessions": "Sessions that are open.",
    "open": "Episodes that are open.",
    "pending": "Steps that wait for their answer.",
}


def metrics_text(measures: Measures, hub: Hub, status: str, sockets: int) -> PrometheusText:
    """All that the network side, the hub and whoever plays have to tell."""
    text = PrometheusText()
    counted = hub.counters.to_json()
    for name, told in COUNTED.items():
        text.add(f"marl_{name}_total", "counter", told, counted[name])
    for name, told in AS_OF_NOW.items():
        text.add(f"marl_{name}", "gauge", told, counted[name])
    text.add("marl_up", "gauge", "1 while the server can be used.", int(status == "ok"))
    text.add("marl_weights_version", "gauge", "Version of the weights that act now.", hub.stage.version)
    text.add("marl_sockets", "gauge", "WebSockets that are open.", sockets)
    text.add("marl_waiting", "gauge", "Messages whose answer is not out yet.", measures.waiting)
    text.add("marl_failures_total", "counter", "Mistakes of the server itself; its log has them.", measures.failures)
    text.add_by("marl_refused_total", "Messages that were refused, by code.", "code", measures.refused)
    text.add_histograms(
        "marl_answer_seconds", "Seconds from a message to its answer.", "message", measures.latency
    )  # fmt: skip
    if isinstance(hub.stage, Measuring):
        _add_of_stage(text, hub.stage.measures())
    return text


def _add_of_stage(text: PrometheusText, found: Mapping[str, float | Histogram]) -> None:
    for name, value in sorted(found.items()):
        told = f"{name.replace('_', ' ')}, as whoever plays measures it."
        if isinstance(value, Histogram):
            text.add_histogram(f"marl_{name}", told, value)
        else:
            text.add(f"marl_{name}", "gauge", told, value)
