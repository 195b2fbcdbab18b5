// The tree as a drawing: players by colour and shape, edges as wide as play goes there, information sets joined by
// dashes.

import { h, put, s } from "marl/dom.js";
import { number } from "marl/format.js";
import { endsBelow, layOut, openNodes } from "marl/parts/tree_layout.js";
import { panAndZoom } from "marl/parts/tree_zoom.js";
import { CHANCE, TERMINAL } from "marl/solve/tree.js";

const MARGIN = 30;
const MOST_LETTERS = 3; // of what fits into a node

/** The shape of a player's nodes, around a place: circle, square, diamond, hexagon. */
export function shape(player, x, y, size) {
  const attributes = { class: `node-shape p${player % 8}` };
  if (player % 4 === 0) return s("circle", { ...attributes, cx: x, cy: y, r: size });
  const corners = [
    [],
    [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]],
    [[0, -1.25], [1.25, 0], [0, 1.25], [-1.25, 0]],
    [[-1.1, 0], [-0.55, -1], [0.55, -1], [1.1, 0], [0.55, 1], [-0.55, 1]],
  ][player % 4];
  return s("polygon", { ...attributes, points: corners.map(([a, b]) => `${x + a * size},${y + b * size}`).join(" ") });
}

/** A small picture of the shape, for lists and legends. */
export function badge(player, name) {
  const label = name === undefined ? { "aria-hidden": "true" } : { role: "img", "aria-label": name };
  return s(
    "svg",
    { class: "badge", viewBox: "-14 -14 28 28", width: 16, height: 16, ...label },
    shape(player, 0, 0, 9),
  );
}

/** The drawing: {element, svg(), refresh()}. It follows the model by itself. */
export function treeDrawing(model, { signal }) {
  const [byHand, closed, extra] = [new Set(), new Set(), new Map()];
  const svg = s("svg", { class: "tree-svg", role: "img" });
  const zoom = panAndZoom(svg, signal);
  const told = h("p", { class: "quiet tree-told", role: "status" });
  const label = "Game tree. Arrow keys go from node to node, Enter looks at an information set, Space opens.";
  const pane = h("div", { class: "tree-pane", tabindex: "0", role: "application", "aria-label": label }, svg);
  const element = h("div", {}, pane, h("div", { class: "row" }, zoom.buttons, told));
  let drawn = [];
  let at = 0; // the node that the keyboard is on

  const rebuild = (stay) => {
    const laid = layOut(model.tree, openNodes(model, byHand, closed), extra);
    drawn = laid.drawn;
    build(svg, model, drawn, act);
    svg.setAttribute("aria-label", `Tree of ${model.game.title}: ${drawn.length} of ${model.tree.N} nodes are drawn.`);
    zoom.setContent(
      { x: -MARGIN, y: -MARGIN, width: laid.width + 2 * MARGIN, height: laid.height + 2.6 * MARGIN },
      stay,
    );
    refresh();
  };
  const refresh = () => {
    for (const item of drawn) item.refresh?.();
  };
  const toggle = (item) => {
    if (item.more) extra.set(item.node, (extra.get(item.node) ?? 0) + 8);
    else if (item.isOpen) {
      byHand.delete(item.node);
      closed.add(item.node);
    } else {
      closed.delete(item.node);
      byHand.add(item.node);
    }
    rebuild(true);
  };
  const act = (item, opens) => {
    at = item.node;
    const set = model.tree.infoset[item.node];
    if (opens || item.more || set < 0) toggle(item);
    else {
      closed.clear();
      model.select(set);
    }
    mark();
  };
  const mark = () => {
    for (const item of drawn) item.group?.classList.toggle("at", item.node === at && !item.more);
    put(told, nodeWords(model, at));
  };
  pane.addEventListener("keydown", (event) => {
    const item = drawn.find((one) => one.node === at && !one.more) ?? drawn[0];
    if (event.key === "Enter" || event.key === " ") act(item, event.key === " ");
    else {
      const next = neighbour(drawn, item, event.key);
      if (next === null) return;
      at = next.node;
      zoom.lookAt(next.x, next.y);
      mark();
    }
    event.preventDefault();
  });
  model.listen((what) => {
    if (what === "selection") {
      rebuild(model.tree.N <= 130);
      const first = drawn.find((item) => !item.more && model.tree.infoset[item.node] === model.selected);
      if (first !== undefined) zoom.show(first.x, first.y);
    } else if (what === "numbers") refresh();
  });
  rebuild(false);
  return { element, svg: () => svg };
}

function neighbour(drawn, item, key) {
  const above = drawn.find((one) => one.children.includes(item));
  const around = (above?.children ?? []).filter((one) => !one.more);
  const place = around.indexOf(item);
  const found = {
    ArrowUp: above, ArrowDown: item.children[0], ArrowLeft: around[place - 1], ArrowRight: around[place + 1],
  };
  return key in found && found[key] !== undefined && !found[key].more ? found[key] : null;
}

/** A node in words, for those who cannot see it. */
function nodeWords(model, node) {
  const { tree, game } = model;
  const reach = `reached ${number(100 * model.nodes.reach[node], 3)} % of the time`;
  const player = tree.player[node];
  if (player === TERMINAL) {
    const paid = tree.players.map((name, p) => `${name} ${number(tree.payoffs[node * tree.P + p])}`);
    return `End of the game: ${paid.join(", ")}; ${reach}.`;
  }
  if (player === CHANCE) return `Chance moves; ${tree.numChildren[node]} outcomes; ${reach}.`;
  const values = tree.players.map((name, p) => `${name} ${number(model.nodes.values[node * tree.P + p])}`);
  const label = moveLabel(tree, game, node);
  const last = label ? `after ${label}; ` : "";
  const known = model.words(tree.infoset[node]);
  return `${tree.players[player]} decides (${known}); ${last}${reach}; worth ${values.join(", ")}.`;
}

function moveLabel(tree, game, node) {
  if (node === 0) return "";
  return tree.choice[node] >= 0 ? game.labels[tree.choice[node]] : tree.chanceLabel.get(node);
}

// -- building the drawing
// ------------------------------------------------------------------------------------------------

function build(svg, model, drawn, act) {
  const edges = s("g", { class: "edges" });
  const hulls = s("g", { class: "hulls" });
  const nodes = s("g", { class: "nodes" });
  for (const item of drawn) {
    item.children.forEach((child, k) => edges.append(...edge(model, item, child, k)));
  }
  hulls.append(...hullsOf(model, drawn));
  for (const item of drawn) nodes.append(nodeOf(model, item, act));
  put(svg, edges, hulls, nodes);
}

/** A line to a child, with its move on it; as wide as play goes there, thin dots where it never does. */
function edge(model, item, child, k) {
  const line = s("line", { x1: item.x, y1: item.y, x2: child.x, y2: child.y, class: "edge" });
  if (child.more) return [line];
  const { tree, game } = model;
  const player = tree.player[item.node];
  line.classList.add(player >= 0 ? `p${player % 8}` : "chance");
  const odd = k % 2; // labels of neighbours stand at two heights
  const share = odd ? 0.72 : 0.52;
  let place = { x: item.x + share * (child.x - item.x), y: item.y + share * (child.y - item.y) + 3 };
  // Chance has many outcomes, whose lines are close to each other at the root: above the nodes is more room.
  if (player < 0) place = { x: child.x, y: child.y - (odd ? 17 : 31) };
  const text = s("text", { class: "move", "paint-order": "stroke", ...place }, moveLabel(tree, game, child.node));
  child.refresh = () => {
    const reach = model.nodes.reach[child.node];
    line.style.setProperty("stroke-width", 0.8 + 8 * Math.sqrt(reach));
    line.classList.toggle("never", reach === 0);
  };
  return [line, text];
}

/** Dashed arcs between the drawn nodes of an information set. */
function hullsOf(model, drawn) {
  const bySet = new Map();
  for (const item of drawn) {
    const set = item.more ? -1 : model.tree.infoset[item.node];
    if (set >= 0) bySet.set(set, [...(bySet.get(set) ?? []), item]);
  }
  const found = [];
  for (const [set, items] of bySet) {
    for (let k = 1; k < items.length; k++) {
      const [a, b] = [items[k - 1], items[k]];
      const bend = Math.min(34, 6 + Math.abs(b.x - a.x) / 14);
      const way = `M ${a.x} ${a.y} Q ${(a.x + b.x) / 2} ${(a.y + b.y) / 2 - 2 * bend} ${b.x} ${b.y}`;
      const player = model.tree.setPlayer[set];
      const isSelected = set === model.selected ? "selected" : "";
      found.push(s("path", { d: way, class: `hull p${player % 8} ${isSelected}` }));
    }
  }
  return found;
}

function nodeOf(model, item, act) {
  const { tree } = model;
  const group = s("g", { class: "node", onclick: () => act(item, false), ondblclick: () => act(item, true) });
  item.group = group;
  const { x, y } = item;
  if (item.more) {
    group.append(s("rect", { class: "more", x: x - 16, y: y - 9, width: 32, height: 18, rx: 9 }));
    group.append(s("text", { class: "inside", x, y: y + 4 }, `+${item.more}`));
    return group;
  }
  const player = tree.player[item.node];
  if (player === TERMINAL) {
    addPayoffs(group, tree, item);
    return group;
  }
  if (player === CHANCE) group.append(s("path", { class: "chance-shape", d: `M ${x} ${y - 11} l 12 20 h -24 z` }));
  else {
    const set = tree.infoset[item.node];
    group.classList.toggle("selected", set === model.selected);
    group.append(shape(player, x, y, 11));
    const known = model.game.sets.private[set].split(",")[0];
    if (known.length <= MOST_LETTERS) group.append(s("text", { class: "inside", x, y: y + 4 }, known));
  }
  group.append(s("title", {}, nodeWords(model, item.node)));
  if (!item.isOpen && tree.numChildren[item.node]) {
    const below = s("text", { class: "closed", x, y: y + 26 }, `▾ ${endsBelow(tree, item.node)}`);
    below.addEventListener("click", (event) => {
      event.stopPropagation();
      act(item, true);
    });
    group.append(below);
  }
  return group;
}

/** What everybody is paid at an end, one line per player, in their colours. */
function addPayoffs(group, tree, item) {
  group.append(s("rect", { class: "end", x: item.x - 4, y: item.y - 4, width: 8, height: 8 }));
  for (let p = 0; p < tree.P; p++) {
    const paid = number(tree.payoffs[item.node * tree.P + p], 3);
    group.append(s("text", { class: `payoff p${p % 8}`, x: item.x, y: item.y + 17 + 12 * p }, paid));
  }
}
