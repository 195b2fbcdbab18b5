// Networks: nodes, edges with their loads, and the ways that can be chosen.

import { h, s } from "marl/dom.js";
import { arrowHead, box, cut, disc, fillPaper, paper, path, round, word } from "marl/draw/paper.js";
import { choiceRow, isLegal } from "marl/draw/places.js";

const [WIDTH, EDGE] = [440, 54];

/** A graph; the wider an edge, the fuller it is. Ways that can be chosen are buttons below. */
export function networkDrawing(options) {
  const sheet = paper("network");
  const row = choiceRow("Ways");
  const counts = h("p", { class: "network-counts quiet" });
  const element = h("div", { class: "scene-frame" }, sheet, counts, options.onAction === null ? null : row.element);
  return {
    element,
    show(scene) {
      drawNetwork(sheet, scene);
      const told = (scene.choices ?? []).filter((choice) => (choice.count ?? null) !== null);
      const text = told.map((choice) => `${choice.text}: ${choice.count}`).join(" · ");
      if (counts.textContent !== text) counts.textContent = text;
      if (options.onAction !== null) row.show(choices(scene, options));
    },
  };
}

function choices(scene, { onAction, legal }) {
  const places = (scene.choices ?? []).filter((choice) => (scene.actions ?? {})[choice.key] !== undefined);
  return places.map((choice) => ({
    key: choice.key,
    text: cut(choice.text, 40),
    pressed: Boolean(choice.taken),
    disabled: !isLegal(scene.actions[choice.key], legal),
    onClick: () => onAction(scene.actions[choice.key]),
  }));
}

function drawNetwork(sheet, scene) {
  const tall = Math.min(380, Math.max(220, 80 * spreadOf(scene.nodes)));
  const at = (node) => [EDGE + node.x * (WIDTH - 2 * EDGE), EDGE * 0.8 + node.y * (tall - 1.6 * EDGE)];
  const twins = new Map();
  const few = scene.nodes.length <= 14;
  const edges = scene.edges.map((edge, i) => edgeParts(scene, edge, i, at, twins, few));
  const nodes = scene.nodes.map((node) => nodeParts(node, at, few));
  const ground = box(0.5, 0.5, WIDTH - 1, tall - 1, "plane", 10);
  fillPaper(sheet, WIDTH, tall, scene.text, ground, edges.map((one) => one.way), nodes, edges.map((one) => one.label));
}

/** How many nodes stand above each other at different heights. */
function spreadOf(nodes) {
  return new Set(nodes.map((node) => Math.round(node.y * 8))).size + 0.5;
}

/** An edge and its label; edges between the same two nodes are bent apart. */
function edgeParts(scene, edge, i, at, twins, few) {
  const [x1, y1] = at(scene.nodes[edge.start]);
  const [x2, y2] = at(scene.nodes[edge.end]);
  const pair = [edge.start, edge.end].sort((a, b) => a - b).join("-");
  const before = twins.get(pair) ?? 0;
  twins.set(pair, before + 1);
  const several = scene.edges.filter((other) => isPair(other, edge)).length > 1;
  const side = edge.start < edge.end ? 1 : -1;
  const bend = several ? (before % 2 ? -1 : 1) * side * (30 + 14 * Math.floor(before / 2)) : 0;
  const [dx, dy] = [x2 - x1, y2 - y1];
  const length = Math.hypot(dx, dy) || 1;
  const [cx, cy] = [(x1 + x2) / 2 - (dy / length) * bend, (y1 + y2) / 2 + (dx / length) * bend];
  const [mx, my] = [(x1 + x2) / 4 + cx / 2, (y1 + y2) / 4 + cy / 2];
  const name = edge.marked ? "edge marked" : "edge";
  const way = path(`M${round(x1)} ${round(y1)}Q${round(cx)} ${round(cy)} ${round(x2)} ${round(y2)}`, name);
  way.style.setProperty("stroke-width", `${round(1.5 + 9 * Math.min(edge.share ?? 0, 1))}px`);
  const parts = [way];
  if (scene.directed) parts.push(head(cx, cy, x2, y2, name));
  const title = s("title", {}, edge.text ?? "");
  return { way: s("g", {}, parts, title), label: edge.text && few ? labelAt(edge, mx, my) : null };
}

function isPair(one, other) {
  return (one.start === other.start && one.end === other.end) || (one.start === other.end && one.end === other.start);
}

function head(cx, cy, x2, y2, name) {
  const [dx, dy] = [x2 - cx, y2 - cy];
  const length = Math.hypot(dx, dy) || 1;
  return arrowHead(x2 - (dx / length) * 19, y2 - (dy / length) * 19, dx, dy, 11, `${name}-head`);
}

/** In two short lines on the ground's colour, so that edges below do not disturb. */
function labelAt(edge, x, y) {
  const lines = edge.text.split(", ").slice(0, 2);
  const wide = 6 * Math.max(...lines.map((one) => Math.min(one.length, 14))) + 10;
  const tall = 14 * lines.length + 4;
  const first = y - ((lines.length - 1) / 2) * 13;
  const words = lines.map((one, i) => word(x, first + i * 13, one, { name: "edge-word", most: 14 }));
  return [box(x - wide / 2, y - tall / 2, wide, tall, "edge-ground", 4), words];
}

function nodeParts(node, at, few) {
  const [x, y] = at(node);
  const colour = node.colour ?? null;
  const name = colour === null ? "node" : `node f${colour % 8}`;
  const radius = few ? 17 : 11;
  const style = { name: colour === null ? "node-word" : "on-colour", most: few ? 5 : 4, size: few ? 12 : 9 };
  const label = word(x, y, node.name, style);
  const [played, earned] = (node.text ?? "").split(", ");
  const told = [played, earned].filter(Boolean).join(", ");
  const ground = box(x - 3 * told.length - 2, y + radius + 3, 6 * told.length + 4, 14, "edge-ground", 4);
  const below = few && told ? [ground, word(x, y + radius + 10, told, { name: "node-told" })] : null;
  const ring = node.marked ? disc(x, y, radius + 4, "node-mark") : null;
  const title = s("title", {}, node.text ? `${node.name}: ${node.text}` : node.name);
  return s("g", {}, ring, disc(x, y, radius, name), label, below, title);
}
