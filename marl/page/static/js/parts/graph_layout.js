// Where the nodes of a response graph are, and how its arrows run.

const NODE = 13; // radius
const HEAD = 9; // length of an arrow's head
const LETTER = 7.2; // dots of a letter, at most about
const FEW = 12; // nodes whose names fit beside a circle upright
export const MOST_LETTERS = 26; // of a node's name
export const ROW_LETTERS = 10; // of a strategy's name beside a grid

/** Places of the nodes: profiles of two players on a grid (a row and a column for each strategy), else on a circle. */
export function layout(graph) {
  const isGrid = !graph.one_population && graph.nodes.every((node) => node.cell.length === 2);
  return isGrid ? onGrid(graph) : onCircle(graph);
}

function onCircle({ nodes }) {
  const longest = Math.max(...nodes.map((node) => Math.min(MOST_LETTERS, node.name.length)));
  const radial = nodes.length > FEW; // names point outwards: beside each other they would overlap
  const radius = Math.max(80, Math.min(190, (nodes.length * 30) / (2 * Math.PI)));
  const sideways = radius + NODE + 14 + LETTER * longest;
  const width = 2 * sideways;
  const height = radial ? width : 2 * (radius + 44);
  const centre = [width / 2, height / 2];
  const places = nodes.map((_, i) => {
    const turn = (2 * Math.PI * i) / nodes.length - Math.PI / 2;
    const along = (distance) => [centre[0] + distance * Math.cos(turn), centre[1] + distance * Math.sin(turn)];
    const [x, y] = along(radius);
    return { x, y, label: radial ? outwards(turn, along(radius + NODE + 4)) : upright(turn, along(radius + NODE + 7)) };
  });
  return { isGrid: false, width, height, places, centre, radius: radial ? 9 : NODE };
}

function upright(turn, [x, y]) {
  const sideways = Math.cos(turn);
  const anchor = Math.abs(sideways) < 0.25 ? "middle" : sideways > 0 ? "start" : "end";
  return { x, y: anchor === "middle" ? y + 8 * Math.sign(Math.sin(turn)) : y, anchor, turn: 0 };
}

function outwards(turn, [x, y]) {
  const isLeft = Math.cos(turn) < -1e-9;
  const degrees = (180 * turn) / Math.PI;
  return { x, y, anchor: isLeft ? "end" : "start", turn: isLeft ? degrees + 180 : degrees };
}

function onGrid({ nodes }) {
  const rows = 1 + Math.max(...nodes.map((node) => node.cell[0]));
  const columns = 1 + Math.max(...nodes.map((node) => node.cell[1]));
  const step = Math.max(34, Math.min(80, Math.floor(440 / Math.max(rows, columns))));
  const [left, top] = [16 + LETTER * ROW_LETTERS, 40];
  const at = ([row, column]) => ({ x: left + step * (column + 0.5), y: top + step * (row + 0.5), label: null });
  const places = nodes.map(({ cell }) => at(cell));
  const size = { width: left + step * columns + 12, height: top + step * rows + 12 };
  const radius = Math.min(NODE, step / 5);
  return { isGrid: true, ...size, rows, columns, step, left, top, places, centre: null, radius };
}

/** The curve of an arrow and the corners of its head, from the edge of one node to the edge of another. */
export function arrow(from, to, { centre, radius }) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy) || 1;
  const middle = [(from.x + to.x) / 2, (from.y + to.y) / 2];
  // To the side, so that arrows there and back, and past other nodes, do not lie on each other; on a circle inwards.
  let bend = [(-dy / length) * length * 0.14, (dx / length) * length * 0.14];
  if (centre !== null) bend = bend.map((size, i) => (centre[i] - middle[i]) * 0.3 + size * 0.35);
  const control = [middle[0] + bend[0], middle[1] + bend[1]];
  const start = towards([from.x, from.y], control, radius + 1);
  const tip = towards([to.x, to.y], control, radius + 2);
  const neck = towards([to.x, to.y], control, radius + 2 + HEAD);
  const [ux, uy] = [(tip[0] - neck[0]) / HEAD, (tip[1] - neck[1]) / HEAD];
  const side = HEAD * 0.42;
  const corners = [tip, [neck[0] - uy * side, neck[1] + ux * side], [neck[0] + uy * side, neck[1] - ux * side]];
  const path = `M${point(start)}Q${point(control)} ${point(neck)}`;
  return { path, head: corners.map(point).join(" ") };
}

function towards(from, to, distance) {
  const length = Math.hypot(to[0] - from[0], to[1] - from[1]) || 1;
  return [from[0] + ((to[0] - from[0]) * distance) / length, from[1] + ((to[1] - from[1]) * distance) / length];
}

function point([x, y]) {
  return `${x.toFixed(1)},${y.toFixed(1)}`;
}
