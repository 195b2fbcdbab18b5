// How far the strategy is from an equilibrium: NashConv, its course while one drags, and each player's best reply.

import { h, put, s } from "marl/dom.js";
import { number } from "marl/format.js";
import { badge } from "marl/parts/tree_drawing.js";

const [WIDTH, HEIGHT] = [360, 96];
const [LEFT, TOP, BOTTOM] = [52, 8, 10];
const FLOOR = 1e-9; // of a logarithmic axis

/** The card with the figures; it follows the model by itself. */
export function figures(model) {
  const { tree } = model;
  const conv = h("output", { class: "nash-conv", id: "nash-conv" });
  const chart = curve();
  const rows = tree.players.map((name, player) => {
    const cells = Array.from({ length: 3 }, () => h("td", { class: "number" }));
    const element = h("tr", {}, h("th", { scope: "row" }, badge(player), " ", name), cells);
    const refresh = ({ values, bestValues, gains }) => {
      [values, bestValues, gains].forEach((found, k) => {
        cells[k].textContent = number(round(found[player]));
      });
    };
    return { element, refresh };
  });
  const note = h("p", { class: "quiet" });
  const refresh = () => {
    const { solver } = model;
    conv.textContent = number(round(Math.max(0, solver.nashConv)), 6);
    conv.dataset.value = solver.nashConv; // in full, for those who compare
    for (const row of rows) row.refresh(solver);
    chart.update(model.history, model.falls);
    put(note, words(model));
  };
  model.listen(refresh);
  refresh();
  const head = ["Player", "Earns", "Best reply", "Could gain"].map(
    (name, k) => h("th", { scope: "col", class: k ? "number" : null }, name),
  );
  return {
    svg: () => chart.element,
    element: h(
      "section",
      { class: "card figures", "aria-label": "How far from an equilibrium" },
      h("h2", {}, "NashConv ", conv),
      chart.element,
      h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows.map((row) => row.element))),
      note,
    ),
  };
}

/** What NashConv says, in a sentence. */
function words(model) {
  const { solver, game, tree } = model;
  if (
    solver.nashConv < 1e-9 * (tree.scale || 1)
  ) return "Nobody gains by playing differently: this is a Nash equilibrium.";
  const half = game.zero_sum && tree.P === 2 ? ` Exploitability, half of it: ${number(solver.nashConv / 2)}.` : "";
  return `All players together could gain ${number(solver.nashConv)} by best replies.${half}`;
}

function round(value) {
  return Math.abs(value) < 1e-12 ? 0 : value;
}

/** A small curve of the last values. Its axis is logarithmic while CFR+ solves the game. */
function curve() {
  const line = s("polyline", { class: "curve" });
  const dot = s("circle", { class: "dot", r: 3.5 });
  const [high, low] = [
    s("text", { x: LEFT - 6, y: TOP + 8, class: "tick" }),
    s("text", { x: LEFT - 6, y: HEIGHT - BOTTOM + 3, class: "tick" }),
  ];
  const axis = s("path", { class: "axis", d: `M ${LEFT} ${TOP} V ${HEIGHT - BOTTOM} H ${WIDTH}` });
  const element = s(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "history", role: "img" },
    axis,
    line,
    dot,
    high,
    low,
  );
  const update = (history, logs) => {
    const most = Math.max(...history, FLOOR);
    const least = Math.max(FLOOR, Math.min(...history));
    const [bottom, top] = logs ? [Math.log(least), Math.log(most)] : [0, most];
    const x = (k) => LEFT + 4 + (k * (WIDTH - LEFT - 12)) / Math.max(1, history.length - 1);
    const y = (value) => {
      const at = ((logs ? Math.log(Math.max(least, value)) : value) - bottom) / (top - bottom || 1);
      return HEIGHT - BOTTOM - at * (HEIGHT - BOTTOM - TOP);
    };
    line.setAttribute("points", history.map((value, k) => `${x(k).toFixed(1)},${y(value).toFixed(1)}`).join(" "));
    dot.setAttribute("cx", x(history.length - 1));
    dot.setAttribute("cy", y(history.at(-1)));
    high.textContent = most > FLOOR ? number(most, 3) : "";
    low.textContent = logs ? number(least, 2) : "0";
    const scale = logs ? ", logarithmic" : "";
    element.setAttribute(
      "aria-label",
      `NashConv over the last ${history.length} changes${scale}, now ${number(history.at(-1))}`,
    );
  };
  return { element, update };
}
