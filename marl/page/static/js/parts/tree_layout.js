// Which nodes of a tree are drawn, and where. Small trees are drawn whole, of large ones the part that is opened.

import { TERMINAL } from "marl/solve/tree.js";

export const WHOLE = 130; // nodes of a tree that is drawn whole
const MOST_DRAWN = 220;
const MOST_CHILDREN = 8; // of a node, before the rest becomes "… more"
const MOST_MEMBERS = 6; // nodes of the selected information set whose ways are opened
const [WIDE, HIGH] = [29, 96];

/** The nodes that are open: their children are drawn. Ways to the nodes of the selected set, and what was opened by
 *  hand. */
export function openNodes(model, byHand, closed) {
  const { tree, selected, nodes } = model;
  if (tree.N <= WHOLE) return new Set(Array.from({ length: tree.N }, (_, node) => node).filter((n) => !closed.has(n)));
  const open = new Set([0, ...byHand]);
  if (selected >= 0) {
    const members = [...tree.members[selected]].sort((a, b) => nodes.reach[b] - nodes.reach[a]);
    for (const member of members.slice(0, MOST_MEMBERS)) addWay(tree, member, open);
  }
  for (const node of closed) open.delete(node);
  return open;
}

function addWay(tree, node, open) {
  for (let at = node; at >= 0; at = tree.parent[at]) open.add(at);
}

/** Places of the drawn nodes: [{node, x, y, isOpen, hidden}]; `more` entries stand for children that are left out. */
export function layOut(tree, open, extra) {
  const drawn = [];
  let column = 0;
  const place = (node, depth) => {
    const item = { node, depth, y: depth * HIGH, isOpen: open.has(node), children: [] };
    drawn.push(item);
    const shown = item.isOpen ? shownChildren(tree, node, open, extra) : [];
    const room = drawn.length + shown.length <= MOST_DRAWN;
    item.isOpen = shown.length > 0 && room;
    if (item.isOpen) {
      for (const child of shown) item.children.push(place(child, depth + 1));
      const left = tree.numChildren[node] - shown.length;
      if (left > 0) item.children.push(placeMore(node, left, depth + 1));
    }
    if (item.children.length) item.x = (item.children[0].x + item.children.at(-1).x) / 2;
    else item.x = WIDE * column++;
    return item;
  };
  const placeMore = (node, left, depth) => {
    const item = { node, more: left, depth, y: depth * HIGH, x: WIDE * column++, children: [] };
    drawn.push(item);
    return item;
  };
  place(0, 0);
  return { drawn, width: WIDE * Math.max(1, column - 1), height: Math.max(...drawn.map((item) => item.y)) };
}

/** All children of a narrow node; of a wide one those that are open, and a few more. */
function shownChildren(tree, node, open, extra) {
  const all = Array.from({ length: tree.numChildren[node] }, (_, k) => tree.firstChild[node] + k);
  if (all.length <= MOST_CHILDREN || tree.N <= WHOLE) return all;
  const opened = all.filter((child) => open.has(child));
  const room = Math.max(0, MOST_CHILDREN - 1 - opened.length) + (extra.get(node) ?? 0);
  const others = all.filter((child) => !open.has(child)).slice(0, room);
  return [...opened, ...others].sort((a, b) => a - b);
}

/** How many ends of the game lie below a node. */
export function endsBelow(tree, node) {
  let count = 0;
  const waiting = [node];
  while (waiting.length) {
    const at = waiting.pop();
    if (tree.player[at] === TERMINAL) count += 1;
    for (let k = 0; k < tree.numChildren[at]; k++) waiting.push(tree.firstChild[at] + k);
  }
  return count;
}
