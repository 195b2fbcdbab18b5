"""Draws the pictures of docs/concepts.md: ``python docs/pictures/draw.py`` writes the SVG files beside this script.

A picture is a function that puts boxes, arrows and words on a sheet; colours say what a box is.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
COLOURS = {  # fill and line of each sort of box
    "world": ("#e3f2e1", "#3f7d3a"),
    "mapper": ("#fdf0d0", "#a5762a"),
    "policy": ("#dfeafa", "#2f5f9e"),
    "learner": ("#eee2f5", "#70458f"),
    "data": ("#f1f1f1", "#7a7a7a"),
    "frame": ("none", "#9a9a9a"),
}
FONT = 14  # pixels
LETTER = 0.52 * FONT  # a letter is not wider than this on average
Point = tuple[float, float]


class Sheet:
    """White paper of a given size."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self.parts: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, text: str, sort: str = "data") -> None:
        """A box with its words in the middle, one line of text per line."""
        fill, line = COLOURS[sort]
        dashed = ' stroke-dasharray="6 4"' if sort == "frame" else ""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" fill="{fill}" stroke="{line}"'
            f' stroke-width="1.5"{dashed}/>'
        )
        lines = text.split("\n")
        assert all(len(words) * LETTER <= width for words in lines), f"{self.title}: {text!r} is wider than its box"
        assert len(lines) * 1.3 * FONT <= height, f"{self.title}: {text!r} is higher than its box"
        if sort == "frame":  # a frame has its words at its upper edge
            self.words(x + width / 2, y + 1.3 * FONT, text)
        else:
            for place, words in enumerate(lines):
                below = (place - (len(lines) - 1) / 2) * 1.3 * FONT
                self.words(x + width / 2, y + height / 2 + below + FONT / 3, words)

    def words(self, x: float, y: float, text: str, anchor: str = "middle", small: bool = False) -> None:
        size = f' font-size="{FONT - 2}" fill="#555"' if small else ""
        reach = {"middle": 0.5, "start": 1.0, "end": 0.0}[anchor] * len(text) * LETTER
        assert x + reach <= self.width + FONT, f"{self.title}: {text!r} leaves the sheet"
        self.parts.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{size}>{escape(text)}</text>')

    def arrow(self, points: Sequence[Point], dashed: bool = False) -> None:
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="#333" stroke-width="1.5"{dashes} marker-end="url(#tip)"/>'
        )

    def svg(self) -> str:
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}"'
                f' height="{self.height}" font-family="Helvetica, Arial, sans-serif" font-size="{FONT}" role="img">',
                f"<title>{escape(self.title)}</title>",
                '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8"'
                ' orient="auto"><path d="M0 0 10 5 0 10z" fill="#333"/></marker></defs>',
                f'<rect width="{self.width}" height="{self.height}" fill="#ffffff"/>',
                *self.parts,
                "</svg>",
                "",
            ]
        )


def loop() -> Sheet:
    sheet = Sheet(860, 380, "One iteration: envs, mapper, policies, batches, learners")
    sheet.box(20, 60, 170, 110, "env\n(copies of it)\n\nagent_0, agent_1, ...", "world")
    sheet.arrow([(190, 115), (290, 115)])
    sheet.words(240, 105, "obs", small=True)
    sheet.box(290, 60, 190, 110, "policy_mapping_fn\n\nwhich policy plays\nthis agent?", "mapper")
    sheet.arrow([(480, 115), (600, 115)])
    sheet.words(540, 105, "rows", small=True)
    sheet.box(600, 60, 230, 110, "policies\n\none forward pass each\nfor all their agents", "policy")
    sheet.arrow([(715, 60), (715, 25), (95, 25), (95, 60)])
    sheet.words(405, 18, "actions, one per agent that was asked", small=True)
    sheet.arrow([(95, 170), (95, 250)])
    sheet.words(105, 215, "what happened", "start", small=True)
    sheet.box(20, 250, 190, 100, "SampleBatch\n\nobs, actions, rewards,\nnew_obs, ends", "data")
    sheet.arrow([(210, 300), (290, 300)])
    sheet.box(290, 250, 190, 100, "MultiAgentBatch\n\none part\nper policy", "data")
    sheet.arrow([(480, 300), (600, 300)])
    sheet.words(540, 290, "train_batch", small=True)
    sheet.box(600, 250, 230, 100, "learners\n\nloss, gradient, step", "learner")
    sheet.arrow([(715, 250), (715, 170)])
    sheet.words(705, 215, "new weights", "end", small=True)
    return sheet


def policy_shapes() -> Sheet:
    sheet = Sheet(860, 260, "Three shapes: one agent, a shared policy, several policies")
    for left, agents, policies, title in (
        (20, ["agent"], ["default_policy"], "one agent, one policy"),
        (310, ["agent_0", "agent_1", "agent_2"], ["shared"], "many agents, one policy"),
        (600, ["car_0", "car_1", "light_0"], ["car", "light"], "many agents, many policies"),
    ):
        sheet.words(left + 120, 28, title)
        for place, agent in enumerate(agents):
            y = 60 + 60 * place + (60 if len(agents) == 1 else 0)
            sheet.box(left, y, 85, 40, agent, "world")
            target = min(place // 2, len(policies) - 1) if len(policies) > 1 else 0
            wanted = 90 + 90 * target if len(policies) > 1 else 120
            sheet.arrow([(left + 85, y + 20), (left + 118, wanted + 22)])
        for place, policy in enumerate(policies):
            sheet.box(left + 118, (90 + 90 * place) if len(policies) > 1 else 120, 124, 44, policy, "policy")
    return sheet


def groups() -> Sheet:
    sheet = Sheet(860, 290, "A group three ways: strangers, mixed values, one agent")
    for left, title in ((20, "strangers (dqn, ppo)"), (310, "mixed values (vdn, qmix)"), (600, "one agent (joint)")):
        sheet.words(left + 120, 28, title)
        for place in range(2):
            sheet.box(left + 125 * place, 50, 115, 40, f"agent_{place} obs", "world")
    for place in range(2):
        for left in (20, 310):
            sheet.arrow([(left + 57 + 125 * place, 90), (left + 57 + 125 * place, 120)])
            sheet.box(left + 125 * place, 120, 115, 40, "policy", "policy")
        sheet.arrow([(77 + 125 * place, 160), (77 + 125 * place, 220)])
        sheet.box(20 + 125 * place, 220, 115, 40, "own loss", "learner")
        sheet.arrow([(367 + 125 * place, 160), (400 + 60 * place, 190)])
        sheet.arrow([(657 + 125 * place, 90), (690 + 60 * place, 120)])
        sheet.arrow([(690 + 60 * place, 165), (657 + 125 * place, 220)])
        sheet.box(600 + 125 * place, 220, 115, 40, f"action {place}", "world")
    sheet.box(340, 190, 180, 28, "mixer: team value", "learner")
    sheet.arrow([(430, 218), (430, 235)])
    sheet.box(340, 235, 180, 40, "loss of team reward", "learner")
    sheet.box(630, 120, 180, 45, "one policy, sees both", "policy")
    return sheet


def hierarchy() -> Sheet:
    sheet = Sheet(860, 320, "A hierarchy: levels set goals for each other, each on its own clock")
    sheet.box(20, 30, 160, 50, "top_level policy", "policy")
    sheet.box(20, 135, 160, 50, "low_level policy", "policy")
    sheet.box(20, 240, 160, 50, "base env", "world")
    sheet.arrow([(60, 80), (60, 135)])
    sheet.words(70, 112, "goal", "start", small=True)
    sheet.arrow([(60, 185), (60, 240)])
    sheet.words(70, 217, "action", "start", small=True)
    sheet.arrow([(180, 265), (215, 265), (215, 160), (180, 160)])
    sheet.arrow([(215, 160), (215, 55), (180, 55)])
    sheet.words(226, 217, "obs, reward", "start", small=True)
    sheet.words(345, 60, "top_level", "start")
    sheet.words(345, 165, "low_level", "start")
    sheet.words(345, 270, "world", "start")
    for step in range(6):
        x = 430 + 70 * step
        commands = step in (0, 3)
        sheet.words(x + 28, 22, f"step {step}", small=True)
        if commands:
            sheet.box(x, 40, 56, 34, "goal", "policy")
            sheet.arrow([(x + 28, 74), (x + 98, 143)], dashed=True)
        else:
            sheet.box(x, 143, 56, 34, "act", "policy")
            sheet.box(x, 248, 56, 34, "step", "world")
            sheet.arrow([(x + 28, 177), (x + 28, 248)])
    sheet.words(430, 308, "a goal lasts until it is reached or its time is over", "start", small=True)
    return sheet


def centralised_critic() -> Sheet:
    sheet = Sheet(
        860, 300, "Centralised critic: actors see their own observation, the critic sees more, in training only"
    )
    for place in range(2):
        y = 50 + 120 * place
        sheet.box(20, y, 130, 50, f"obs of agent_{place}", "world")
        sheet.arrow([(150, y + 25), (220, y + 25)])
        sheet.box(220, y, 130, 50, "actor", "policy")
        sheet.arrow([(350, y + 25), (420, y + 25)])
        sheet.box(420, y, 120, 50, "action", "data")
        sheet.arrow([(540, y + 25), (640, 130 + 40 * place)], dashed=True)
        sheet.arrow([(85, y + 50), (85, y + 72), (600, y + 72), (640, 140 + 20 * place)], dashed=True)
    sheet.box(640, 110, 200, 80, "critic\nsees what critic_sees\nnames", "learner")
    sheet.arrow([(740, 110), (740, 30), (285, 30), (285, 50)], dashed=True)
    sheet.words(510, 22, "advantage: was it better than expected?", small=True)
    sheet.words(20, 285, "solid: always, also when playing. dashed: while learning only", "start", small=True)
    return sheet


def ray_workers() -> Sheet:
    sheet = Sheet(860, 330, "Ray workers: copies of envs and policies on other cores or machines")
    sheet.box(20, 30, 240, 270, "your process", "frame")
    sheet.box(40, 70, 200, 50, "Trainer", "data")
    sheet.box(40, 140, 200, 50, "policies (master copy)", "policy")
    sheet.box(40, 210, 200, 70, "learners\n(num_learners share\na minibatch)", "learner")
    for worker in range(2):
        y = 30 + 145 * worker
        sheet.box(470, y, 370, 125, f"Ray actor: worker {worker + 1} of num_workers", "frame")
        sheet.box(485, y + 40, 140, 65, "policies\n(a copy)", "policy")
        sheet.box(655, y + 40, 175, 65, "num_envs_per_worker\ncopies of the env", "world")
        sheet.arrow([(625, y + 60), (655, y + 60)])
        sheet.arrow([(655, y + 85), (625, y + 85)])
        sheet.arrow([(240, 155), (380, 155), (470, y + 45)])
        sheet.arrow([(470, y + 95), (380, 245), (240, 245)])
    sheet.words(310, 145, "new weights", small=True)
    sheet.words(310, 265, "fragments", small=True)
    return sheet


PICTURES = (loop, policy_shapes, groups, hierarchy, centralised_critic, ray_workers)


def drawings() -> dict[str, str]:
    """File names and what belongs into them."""
    return {f"{picture.__name__}.svg": picture().svg() for picture in PICTURES}


if __name__ == "__main__":
    for name, svg in drawings().items():
        (HERE / name).write_text(svg, encoding="utf-8")
        print(HERE / name)
