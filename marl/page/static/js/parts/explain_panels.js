// Tables of joint values as drawings: one panel for each learner, one block for each state of the two-step game.

import { s } from "marl/dom.js";

export const STATES = [
  ["first", "State 1"],
  ["safe", "State 2A"],
  ["risky", "State 2B"],
];
export const ACTIONS = ["A", "B"];
const SIDE = 46; // room for the names of the rows
const CELL = { width: 97, height: 40 };
const BLOCK = 136;

/** A number with two digits behind the point. */
export function two(value) {
  const text = value.toFixed(2);
  return (text === "-0.00" ? "0.00" : text).replace("-", "−");
}

/** What a learner says of each pair of actions: the mixed values, or the sum of the agents' own where nothing mixes them. */
export function tableOf(point, state) {
  if (point.joint) return point.joint[state];
  const [one, other] = point.members[state];
  return one.map((mine) => other.map((theirs) => mine + theirs));
}

/** The panel of a learner. `members`: also the agents' own values; `loose`: they are summed, but nobody learns the sum. */
export function learnedPanel({ name, point, members, loose, most }) {
  const blocks = STATES.map(([state, title], i) => {
    const table = tableOf(point, state);
    const [row, column] = point.greedy[state];
    const marked = (r, c) => r === row && c === column;
    const own = members ? point.members[state] : null;
    return block({ title, table, marked, framed: true, own, loose, most, y: i * BLOCK });
  });
  return panel(
    blocks,
    `${name}. ${STATES.map(([state, title]) => spoken(title, tableOf(point, state), point.greedy[state])).join(" ")}`,
  );
}

/** The panel of the true values; the best pairs of each state are marked. */
export function truePanel(truth, most) {
  const blocks = STATES.map(([state, title], i) => {
    const best = Math.max(...truth[state].flat());
    const marked = (r, c) => truth[state][r][c] === best;
    return block({ title, table: truth[state], marked, framed: false, own: null, loose: false, most, y: i * BLOCK });
  });
  return panel(blocks, `True values. ${STATES.map(([state, title]) => spoken(title, truth[state], null)).join(" ")}`);
}

function panel(blocks, label) {
  const size = `0 0 ${SIDE + 2 * CELL.width + 4} ${3 * BLOCK - 10}`;
  return s("svg", { class: "values-panel", viewBox: size, role: "img", "aria-label": label }, blocks);
}

function spoken(title, table, greedy) {
  const cells = table.flatMap((row, r) => row.map((value, c) => `${ACTIONS[r]} ${ACTIONS[c]}: ${two(value)}`));
  const done = greedy === null ? "" : ` Greedy: ${ACTIONS[greedy[0]]} ${ACTIONS[greedy[1]]}.`;
  return `${title}: ${cells.join(", ")}.${done}`;
}

function block({ title, table, marked, framed, own, loose, most, y }) {
  const top = y + 44;
  const parts = [s("text", { class: "state-name", x: SIDE, y: y + 17 }, title)];
  for (let i = 0; i < 2; i += 1) {
    const across = SIDE + (i + 0.5) * CELL.width;
    parts.push(heading(ACTIONS[i], own?.[1][i], across, y + 38, "middle"));
    parts.push(...sideHeading(ACTIONS[i], own?.[0][i], top + (i + 0.5) * CELL.height));
  }
  const cells = table.flatMap((row, r) => row.map((value, c) => cell(value, r, c, { top, loose, most, marked, framed })));
  // Frames come last, so that no neighbour covers them.
  const frames = cells.map(({ frame }) => frame);
  return s("g", {}, parts, cells.map(({ drawn }) => drawn), frames);
}

function heading(letter, value, x, y, anchor) {
  const own = value === undefined ? null : s("tspan", { class: "own" }, ` ${two(value)}`);
  return s("text", { class: "action-name", x, y, "text-anchor": anchor }, letter, own);
}

function sideHeading(letter, value, y) {
  const x = SIDE - 7;
  if (value === undefined) return [s("text", { class: "action-name", x, y: y + 6, "text-anchor": "end" }, letter)];
  return [
    s("text", { class: "action-name", x, y: y - 2, "text-anchor": "end" }, letter),
    s("text", { class: "own", x, y: y + 15, "text-anchor": "end" }, two(value)),
  ];
}

function cell(value, r, c, { top, loose, most, marked, framed }) {
  const x = SIDE + c * CELL.width;
  const y = top + r * CELL.height;
  const share = Math.min(1, Math.abs(value) / most);
  const ground = `color-mix(in srgb, var(${value < 0 ? "--low" : "--high"}) ${Math.round(52 * share)}%, var(--ground))`;
  const size = { x, y, width: CELL.width, height: CELL.height };
  const drawn = s(
    "g",
    {},
    s("rect", { ...size, class: loose ? "value loose" : "value", style: { fill: ground } }),
    s("text", { class: "value-number", x: x + CELL.width / 2, y: y + 27, "text-anchor": "middle" }, two(value)),
  );
  if (!marked(r, c)) return { drawn, frame: null };
  const star = s("text", { class: "star", x: x + CELL.width - 6, y: y + 15, "text-anchor": "end" }, "★");
  const around = { x: x + 1.5, y: y + 1.5, width: CELL.width - 3, height: CELL.height - 3 };
  return { drawn, frame: s("g", {}, framed ? s("rect", { ...around, class: "frame" }) : null, star) };
}

// -- the game itself ---------------------------------------------------------------------------------------------------

/** The two-step game as a drawing: the first agent picks the branch, then both are paid by what both do. */
export function gameDrawing(truth) {
  const label =
    "The two-step game. In state 1 agent 1 picks: A leads to state 2A, B to state 2B. " +
    `There both are paid together, by what both do: ${spoken("State 2A", truth.safe, null)} ${spoken("State 2B", truth.risky, null)}`;
  return s(
    "svg",
    { class: "game-drawing", viewBox: "0 0 400 176", role: "img", "aria-label": label },
    s("rect", { class: "state", x: 6, y: 64, width: 92, height: 48, rx: 8 }),
    s("text", { class: "state-name", x: 52, y: 93, "text-anchor": "middle" }, "State 1"),
    way("M98 80 C 140 60, 150 44, 196 44", "A", 140, 50),
    way("M98 98 C 140 118, 150 132, 196 132", "B", 140, 142),
    branch("State 2A", truth.safe, 8),
    branch("State 2B", truth.risky, 96),
  );
}

function way(path, letter, x, y) {
  const text = s("text", { class: "action-name", x, y, "text-anchor": "middle" }, letter);
  return s("g", {}, s("path", { class: "way", d: path }), text);
}

function branch(title, table, y) {
  const cells = table.flatMap((row, r) =>
    row.map((value, c) =>
      s("text", { class: "pay", x: 322 + 40 * c, y: y + 30 + 26 * r, "text-anchor": "middle" }, String(value)),
    ),
  );
  return s(
    "g",
    {},
    s("rect", { class: "state", x: 198, y, width: 192, height: 72, rx: 8 }),
    s("text", { class: "state-name", x: 212, y: y + 32 }, title),
    s("text", { class: "own", x: 212, y: y + 54 }, "team earns"),
    s("line", { class: "way", x1: 296, x2: 296, y1: y + 10, y2: y + 62 }),
    cells,
  );
}
