// The response graph: arrows lead to what earns more. Where they end is marked; cycles are listed and can be lit up.

import { add, h, put, s } from "marl/dom.js";
import { number, percent } from "marl/format.js";
import { MOST_LETTERS, ROW_LETTERS, arrow, layout } from "marl/parts/graph_layout.js";
import { label } from "marl/parts/heat_table.js";
import { pictureButtons } from "marl/save.js";

const MOST_ON_A_CIRCLE = 40;
const MOST_ON_A_GRID = 225;
const MANY_ARROWS = 60; // from here on only the best replies are shown first
const SURE = 0.8; // arrows that fewer redrawn tables have are dashed
const MOST_LISTED = 12;

/** The graph with its cycles; `bare` where it is told in words beside it. `graph` is as `marl.analysis.report.shown`
 *  gives it, `names` are the strategies of each player. */
export function responseGraph({ graph, names, bare = false, name = "response_graph" }) {
  const place = layout(graph);
  const lit = graph.cycles.length ? 0 : null;
  const shown = { graph, names, place, lit, focus: null, best: graph.edges.length > MANY_ARROWS };
  const element = h("div", { class: "graph" }, bare ? null : endsInWords(graph));
  const most = place.isGrid ? MOST_ON_A_GRID : MOST_ON_A_CIRCLE;
  if (graph.nodes.length > most || graph.edges.length < graph.arrows) {
    const words = `The graph has ${graph.nodes.length} nodes: too many to draw.`;
    add(element, h("p", { class: "quiet" }, words), cycleList(shown));
    return { element };
  }
  if (graph.arrows === 0) return { element };
  shown.canvas = h("div", { class: "scroll graph-scroll" });
  shown.detail = h("p", { class: "graph-detail" });
  shown.canvas.addEventListener("keydown", (event) => walk(shown, event));
  shown.canvas.addEventListener("pointerleave", () => leave(shown));
  draw(shown);
  add(element, shown.canvas, shown.detail, controls(shown, name), cycleList(shown));
  return { element };
}

function again(share, draws) {
  return draws === 1 ? "for sure, as the payoffs are exact" : `in ${percent(share)} of redrawn tables`;
}

/** Where better replies end, in words. */
function endsInWords(graph) {
  const apart = `${number(graph.significance)} standard errors`;
  if (graph.arrows === 0) {
    return h("p", {}, `No difference is clearer than ${apart}, so nothing is better than anything else yet: no arrows.`);
  }
  const ends = graph.sinks.map(({ nodes, share }) => {
    const names = listed(nodes.map((i) => graph.nodes[i].name));
    return `${names} (${again(share, graph.draws)})`;
  });
  const count = ends.length === 1 ? "1 place" : `${ends.length} places`;
  const more = ends.length > MOST_LISTED ? `; and ${ends.length - MOST_LISTED} more` : "";
  return h("p", {}, `Better replies end in ${count}: ${ends.slice(0, MOST_LISTED).join("; ")}${more}.`);
}

function listed(names) {
  if (names.length <= MOST_LISTED) return names.join(", ");
  return `${names.slice(0, 3).join(", ")} and ${names.length - 3} others, in a cycle`;
}

function controls(shown, name) {
  const only = h("input", { type: "checkbox", checked: shown.best, onchange: (event) => {
    shown.best = event.target.checked;
    draw(shown);
  } });
  const label = h("label", { class: "grow" }, only, " only the best replies");
  return h("div", { class: "row" }, label, pictureButtons(() => shown.svg, name));
}

function cycleList(shown) {
  const { cycles, draws } = shown.graph;
  if (cycles.length === 0) return h("p", { class: "quiet" }, "No cycle: better replies lead nowhere round in a circle.");
  const items = cycles.map((cycle, i) => {
    const press = () => light(shown, shown.lit === i ? null : i);
    const pressed = String(shown.lit === i);
    const button = h("button", { class: "small cycle", "aria-pressed": pressed, onclick: press }, cycle.text);
    const errors = cycle.stderrs.map((error) => number(error, 2));
    const margins = cycle.margins.map((margin, k) => `${number(margin, 3)} ± ${errors[k]}`).join(", ");
    const where = cycle.in_sink ? "better replies end here" : "better replies lead away from it";
    return h("li", {}, button, h("span", { class: "quiet" }, ` ${again(cycle.share, draws)}; by ${margins}; ${where}`));
  });
  shown.list = h("ol", { class: "cycles", "aria-label": "Cycles: press one to see it in the graph" }, items);
  return shown.list;
}

function light(shown, which) {
  shown.lit = which;
  const press = (button, i) => button.setAttribute("aria-pressed", String(i === which));
  shown.list.querySelectorAll("button").forEach(press);
  if (shown.canvas) draw(shown);
}

// -- drawing ----------------------------------------------------------------------------------------------------------

/** The player whose choice an arrow changes; 0 in one population. */
function mover(graph, edge) {
  const [from, to] = [graph.nodes[edge.from].cell, graph.nodes[edge.to].cell];
  return graph.one_population ? 0 : from.findIndex((strategy, i) => strategy !== to[i]);
}

/** The arrow with the largest gain out of every node, for each player that could move. */
function bestReplies(graph) {
  const best = new Map();
  for (const edge of graph.edges) {
    const key = `${edge.from} ${mover(graph, edge)}`;
    if (!best.has(key) || best.get(key).gain < edge.gain) best.set(key, edge);
  }
  return new Set(best.values());
}

/** Arrows of the cycle that is lit up, as "from to": each node of a cycle beats the next one. */
function litArrows({ graph, lit }) {
  if (lit === null) return new Set();
  const { nodes } = graph.cycles[lit];
  return new Set(nodes.map((winner, i) => `${nodes[(i + 1) % nodes.length]} ${winner}`));
}

function draw(shown) {
  const { graph, place } = shown;
  const lit = litArrows(shown);
  const best = shown.best ? bestReplies(graph) : null;
  const { width, height } = place;
  const words = `Response graph of ${graph.nodes.length} nodes and ${graph.arrows} arrows`;
  const size = { viewBox: `0 0 ${width} ${height}`, width, height };
  const svg = s("svg", { class: "graph-map", ...size, role: "group", "aria-label": words });
  const arrows = [[], []];
  for (const edge of graph.edges) {
    const isLit = lit.has(`${edge.from} ${edge.to}`);
    const isNear = shown.focus !== null && (edge.from === shown.focus || edge.to === shown.focus);
    if (best !== null && !best.has(edge) && !isLit && !isNear) continue;
    arrows[isLit || isNear ? 1 : 0].push(drawArrow(shown, edge, isLit, isNear));
  }
  add(svg, place.isGrid ? gridTitles(shown) : null, arrows, graph.nodes.map((node, i) => drawNode(shown, node, i)));
  const hadFocus = shown.canvas.contains(document.activeElement);
  shown.svg = svg;
  put(shown.canvas, svg);
  put(shown.detail, shown.focus === null ? hint(place) : about(graph, shown.focus));
  if (hadFocus && shown.focus !== null) svg.querySelector(`[data-node="${shown.focus}"]`).focus();
}

function hint({ isGrid }) {
  const how = "Point at a circle, or walk with the arrow keys, to see its arrows alone.";
  if (!isGrid) return how;
  return `Each circle is a pair of strategies; arrows along a row or a column lead to where that player earns more. ${how}`;
}

function drawArrow(shown, edge, isLit, isNear) {
  const { places } = shown.place;
  const { path, head } = arrow(places[edge.from], places[edge.to], shown.place);
  const isFar = shown.focus !== null && !isNear;
  const kind = isLit ? "lit" : isNear ? "near" : isFar ? "far" : "";
  const dash = edge.share < SURE ? "3 3" : null;
  const marks = [s("path", { d: path, fill: "none", "stroke-dasharray": dash }), s("polygon", { points: head })];
  return s("g", { class: `arrow ${kind}`, "aria-hidden": "true" }, marks);
}

function drawNode(shown, node, i) {
  const { graph, place } = shown;
  const { x, y, label: at } = place.places[i];
  const isEnd = graph.sinks.some(({ nodes }) => nodes.includes(i));
  const isLit = shown.lit !== null && graph.cycles[shown.lit].nodes.includes(i);
  const look = () => {
    if (shown.focus === i) return;
    shown.focus = i;
    draw(shown);
  };
  const attributes = {
    class: `node ${isEnd ? "end" : ""} ${isLit ? "lit" : ""}`, "data-node": i, role: "img",
    tabindex: i === (shown.focus ?? 0) ? 0 : -1, "aria-label": about(graph, i), onfocus: look, onpointerenter: look,
  };
  const circles = [s("circle", { cx: x, cy: y, r: place.radius })];
  // Two rings, so that ends are seen without colours.
  if (isEnd) circles.push(s("circle", { cx: x, cy: y, r: place.radius - 3.5, class: "inner" }));
  const text = at && nameAt(node, at);
  return s("g", attributes, s("title", {}, node.name), circles, text);
}

function nameAt(node, { x, y, anchor, turn }) {
  const place = { x, y, "text-anchor": anchor, "dominant-baseline": "central" };
  if (turn) place.transform = `rotate(${turn.toFixed(1)} ${x.toFixed(1)} ${y.toFixed(1)})`;
  return s("text", place, label(node.name, MOST_LETTERS));
}

/** Names of the strategies beside the rows and above the columns, without what all of a player's begin with. */
function gridTitles({ place, names }) {
  const most = Math.max(4, Math.floor(place.step / 7.4));
  const rows = names[0].map((_, i) => place.top + place.step * (i + 0.5));
  const columns = names[1].map((_, j) => place.left + place.step * (j + 0.5));
  const [own, theirs] = names.map(withoutStart);
  const left = { x: place.left - 8, "text-anchor": "end" };
  const above = { y: place.top - 10 };
  const title = (text, full, attributes) => s("text", attributes, text, s("title", {}, full));
  return [
    rows.map((y, i) => title(label(own.rest[i], ROW_LETTERS), names[0][i], { ...left, y, "dominant-baseline": "central" })),
    columns.map((x, j) => title(label(theirs.rest[j], most), names[1][j], { x, ...above, "text-anchor": "middle" })),
    s("text", { ...left, ...above, class: "quiet-text" }, label(own.start, ROW_LETTERS)),
    s("text", { x: place.left + 4, y: 12, class: "quiet-text" }, theirs.start),
  ];
}

/** What all names begin with, and the rest of each: {start: "player_0_…", rest: ["0", "1"]}. */
function withoutStart(names) {
  let length = 0;
  while (names.every((name) => length < name.length - 1 && name[length] === names[0][length])) length += 1;
  if (names.length < 2 || length < 4) return { start: "", rest: names };
  return { start: `${names[0].slice(0, length)}…`, rest: names.map((name) => name.slice(length)) };
}

/** A node in words: what is better than it, and what it is better than. */
function about(graph, i) {
  const better = graph.edges.filter((edge) => edge.from === i).sort((a, b) => b.gain - a.gain);
  const worse = graph.edges.filter((edge) => edge.to === i);
  const { name } = graph.nodes[i];
  const end = graph.sinks.some(({ nodes }) => nodes.includes(i)) ? " Better replies end here." : "";
  if (better.length === 0) return `${name}: nothing is clearly better; it is better than ${worse.length}.${end}`;
  const told = better.slice(0, 3).map((edge) => {
    const gain = `${number(edge.gain, 3)} ± ${number(edge.stderr, 2)}`;
    return `${graph.nodes[edge.to].name} (by ${gain}, ${again(edge.share, graph.draws)})`;
  });
  const more = better.length > 3 ? ` and ${better.length - 3} more` : "";
  return `${name}: better are ${told.join(", ")}${more}; it is better than ${worse.length}.${end}`;
}

/** All arrows again, unless somebody walks there by keyboard. */
function leave(shown) {
  if (shown.focus === null || shown.canvas.contains(document.activeElement)) return;
  shown.focus = null;
  draw(shown);
}

function walk(shown, event) {
  const count = shown.graph.nodes.length;
  const down = shown.place.isGrid ? shown.place.columns : 1;
  const step = { ArrowRight: 1, ArrowDown: down, ArrowLeft: -1, ArrowUp: -down }[event.key];
  if (step === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const next = ((shown.focus ?? 0) + step + count) % count;
  shown.svg.querySelector(`[data-node="${next}"]`).focus();
}
