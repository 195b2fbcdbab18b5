// Where the members of a population come from: one lane for each learner, one column for each round.

import { add, h, put, s } from "marl/dom.js";
import { percent } from "marl/format.js";
import { arrow } from "marl/parts/graph_layout.js";
import { pictureButtons } from "marl/save.js";

const LANE = 46;
const RADIUS = 11;
const FIRST = "first weights";

/** The lineage as `population.json` tells it; `round` is the last one that counts. Returns {element, update(round)}. */
export function lineageChart({ lineage, round }) {
  const shown = { lineage, round, focus: null, place: places(lineage) };
  shown.canvas = h("div", { class: "scroll" });
  shown.detail = h("p", { class: "graph-detail" });
  shown.canvas.addEventListener("keydown", (event) => walk(shown, event));
  draw(shown);
  const foot = h("div", { class: "picture-foot" }, shown.detail, pictureButtons(() => shown.svg, "lineage"));
  const element = h("div", { class: "graph" }, shown.canvas, foot);
  return { element, update: (last) => draw(Object.assign(shown, { round: last })) };
}

/** A learner's lane: first weights are where the main learner of their side began. */
function laneOf(node) {
  return node.learner === FIRST ? node.side : node.learner;
}

function places({ nodes }) {
  const lanes = [...new Set(nodes.map(laneOf))];
  const last = Math.max(...nodes.map((node) => node.round));
  const left = 20 + 7.4 * Math.min(26, Math.max(...lanes.map((lane) => lane.length)));
  const step = Math.max(34, Math.min(72, Math.floor(860 / (last + 1))));
  const at = new Map();
  for (const node of nodes) {
    at.set(node.id, { x: left + step * (node.round + 0.5), y: 30 + LANE * (lanes.indexOf(laneOf(node)) + 0.5) });
  }
  return { lanes, left, step, last, at, width: left + step * (last + 1) + 10, height: 30 + LANE * lanes.length + 10 };
}

function draw(shown) {
  const { lineage, place } = shown;
  const { width, height } = place;
  const words = `Lineage of ${lineage.nodes.length} members over ${place.last} rounds`;
  const size = { viewBox: `0 0 ${width} ${height}`, width, height };
  const svg = s("svg", { class: "graph-map lineage", ...size, role: "group", "aria-label": words });
  place.lanes.forEach((lane, i) => {
    const y = 30 + LANE * (i + 0.5);
    const text = s("text", { x: place.left - 8, y, "text-anchor": "end", "dominant-baseline": "central" }, lane);
    add(svg, s("line", { x1: place.left, x2: width, y1: y, y2: y, class: "grid" }), text);
  });
  const every = Math.max(1, Math.ceil(place.last / 20));
  for (let round = 0; round <= place.last; round += every) {
    const x = place.left + place.step * (round + 0.5);
    svg.append(s("text", { x, y: 16, "text-anchor": "middle", class: "quiet-text" }, round));
  }
  const edges = lineage.edges.filter((edge) => isShown(shown, edge)).map((edge) => drawEdge(shown, edge));
  add(svg, edges, lineage.nodes.map((node, i) => drawMember(shown, node, i)));
  const hadFocus = shown.canvas.contains(document.activeElement);
  shown.svg = svg;
  put(shown.canvas, svg);
  put(shown.detail, shown.focus === null
    ? "Columns are rounds. Lines: went on with these weights. Point at a member to see whom it was trained against."
    : about(shown.lineage, shown.focus));
  if (hadFocus && shown.focus !== null) svg.querySelector(`[data-node="${shown.focus}"]`).focus();
}

/** Lines of descent always, opponents only of the member that is looked at: there are too many of them. */
function isShown({ lineage, focus }, edge) {
  return edge.relation === "trained_from" || (focus !== null && edge.target === lineage.nodes[focus].id);
}

function drawEdge({ place, round, lineage }, edge) {
  const [from, to] = [place.at.get(edge.source), place.at.get(edge.target)];
  const { path, head } = arrow(from, to, { centre: null, radius: RADIUS });
  const joined = lineage.nodes.find((node) => node.id === edge.target).round;
  const kind = joined > round ? "far" : edge.relation === "trained_against" ? "near" : "";
  const dash = edge.relation === "trained_against" ? "4 3" : null;
  return s("g", { class: `arrow ${kind}`, "aria-hidden": "true" },
    s("path", { d: path, fill: "none", "stroke-dasharray": dash }), s("polygon", { points: head }));
}

function drawMember(shown, node, i) {
  const { x, y } = shown.place.at.get(node.id);
  const look = () => {
    if (shown.focus !== i) draw(Object.assign(shown, { focus: i }));
  };
  const isMain = laneOf(node) === node.side;
  const attributes = {
    class: `node ${isMain ? "main" : ""} ${node.round > shown.round ? "later" : ""}`, "data-node": i, role: "img",
    tabindex: i === (shown.focus ?? 0) ? 0 : -1, "aria-label": about(shown.lineage, i),
    onfocus: look, onpointerenter: look,
  };
  const number = node.id.slice(node.id.lastIndexOf("_") + 1);
  return s("g", attributes, s("title", {}, node.id), s("circle", { cx: x, cy: y, r: RADIUS }),
    s("text", { x, y, "text-anchor": "middle", "dominant-baseline": "central", class: "small-text" }, number));
}

function about({ nodes, edges }, i) {
  const node = nodes[i];
  const mine = edges.filter((edge) => edge.target === node.id);
  const parent = mine.find((edge) => edge.relation === "trained_from");
  const foes = mine.filter((edge) => edge.relation === "trained_against").sort((a, b) => b.chance - a.chance);
  if (node.learner === FIRST) return `${node.id}: the first weights, before any training.`;
  const from = parent ? `went on from ${parent.source}` : "began with new weights";
  const against = foes.slice(0, 6).map((edge) => `${edge.source} (${percent(edge.chance)})`).join(", ");
  const more = foes.length > 6 ? ` and ${foes.length - 6} more` : "";
  return `${node.id}: joined in round ${node.round}; ${from}${against ? `; trained against ${against}${more}` : ""}.`;
}

function walk(shown, event) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (step === undefined) return;
  event.preventDefault();
  const count = shown.lineage.nodes.length;
  shown.svg.querySelector(`[data-node="${((shown.focus ?? 0) + step + count) % count}"]`).focus();
}
