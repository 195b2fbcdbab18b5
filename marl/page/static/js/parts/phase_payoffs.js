// What both players earn over time along a trajectory.

import { s } from "marl/dom.js";
import { number } from "marl/format.js";

const [WIDTH, HEIGHT] = [460, 150];
const [LEFT, RIGHT, TOP, BOTTOM] = [46, 8, 10, 26];

/** {svg, update(path)}: a path has times and payoffs [[row, column]]. */
export function payoffChart(unit) {
  const lines = [0, 1].map((player) => s("polyline", { class: `pay-line p${player}` }));
  const ticks = [
    ["end", LEFT - 6, TOP + 4],
    ["end", LEFT - 6, HEIGHT - BOTTOM + 3],
    ["end", WIDTH - RIGHT, HEIGHT - 8],
  ];
  const [high, low, last] = ticks.map(([anchor, x, y]) => s("text", { class: "tick", "text-anchor": anchor, x, y }));
  const svg = s(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "pay-chart", role: "img", "aria-label": "Payoffs over time" },
    s("path", { class: "axis", d: `M ${LEFT} ${TOP} V ${HEIGHT - BOTTOM} H ${WIDTH - RIGHT}` }),
    s("text", { class: "tick", x: LEFT, y: HEIGHT - 8 }, "0"),
    lines, high, low, last,
  );
  const update = ({ times, payoffs }) => {
    const all = payoffs.flat();
    const spread = Math.max(...all) - Math.min(...all);
    const room = spread > 1e-9 ? 0.08 * spread : 0.5; // less is rounding
    const [least, most] = [Math.min(...all) - room, Math.max(...all) + room];
    const end = times.at(-1) || 1;
    const x = (time) => LEFT + (time / end) * (WIDTH - LEFT - RIGHT);
    const y = (paid) => HEIGHT - BOTTOM - ((paid - least) / (most - least || 1)) * (HEIGHT - BOTTOM - TOP);
    lines.forEach((line, player) => {
      line.setAttribute(
        "points",
        times.map((time, k) => `${x(time).toFixed(1)},${y(payoffs[k][player]).toFixed(1)}`).join(" "),
      );
    });
    high.textContent = number(most, 2);
    low.textContent = number(least, 2);
    last.textContent = `${unit()} ${number(end, 3)}`;
    const now = payoffs.at(-1).map((paid) => number(paid, 4));
    svg.setAttribute(
      "aria-label",
      `Payoffs over time: now ${now[0]} for the row player and ${now[1]} for the column player.`,
    );
  };
  return { svg, update };
}
