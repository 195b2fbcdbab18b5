// A phase portrait: where play goes from everywhere. Two actions each: the unit square of both players' shares. Three
// actions: a triangle for one population that plays against itself, or one triangle per player.

import { s } from "marl/dom.js";
import { direction } from "marl/solve/flow.js";

const SIZE = 400;
const [LEFT, TOP, RIGHT, BOTTOM] = [58, 26, 26, 48];
const TALL = (SIZE * Math.sqrt(3)) / 2;

/** Both players' shares of their first action, as a place in the square. */
const SQUARE = {
  width: LEFT + SIZE + RIGHT,
  height: TOP + SIZE + BOTTOM,
  place: ([x, y]) => [LEFT + SIZE * x[0], TOP + SIZE * (1 - y[0])],
  // The point at a place of the drawing.
  point: (px, py) => {
    const [a, b] = [inside((px - LEFT) / SIZE), inside(1 - (py - TOP) / SIZE)];
    return [[a, 1 - a], [b, 1 - b]];
  },
  grid: () => {
    const at = Array.from({ length: 15 }, (_, k) => (k + 0.5) / 15);
    return at.flatMap((a) => at.map((b) => [[a, 1 - a], [b, 1 - b]]));
  },
  step: SIZE / 15,
};

/** Three shares as a place in the triangle: the first at the bottom left, the second at the bottom right, the third
 *  on top. */
function triangle(player, other) {
  const corners = [[LEFT, TOP + TALL], [LEFT + SIZE, TOP + TALL], [LEFT + SIZE / 2, TOP]];
  const place = (point) => [0, 1].map(
    (axis) => point[player].reduce((sum, share, i) => sum + share * corners[i][axis], 0),
  );
  const both = (shares) => {
    if (other === null) return [shares, shares];
    return player === 0 ? [shares, other()[1]] : [other()[0], shares];
  };
  return {
    width: LEFT + SIZE + RIGHT,
    height: TOP + TALL + BOTTOM,
    corners,
    place,
    point: (px, py) => {
      const third = (TOP + TALL - py) / TALL;
      const second = (px - LEFT) / SIZE - third / 2;
      return both(nearest([1 - second - third, second, third]));
    },
    grid: () => {
      const found = [];
      const n = 13;
      for (let i = 0; i < n; i++) {
        for (let j = 0; i + j < n; j++) found.push(both([(i + 1 / 3) / n, (j + 1 / 3) / n, (n - i - j - 2 / 3) / n]));
      }
      return found;
    },
    step: SIZE / 13,
  };
}

function inside(share) {
  return Math.min(1, Math.max(0, share));
}

function nearest(shares) {
  const positive = shares.map((share) => Math.max(0, share));
  const total = positive.reduce((sum, share) => sum + share, 0) || 1;
  return positive.map((share) => share / total);
}

/** How a game is drawn: "square", "single" (one triangle) or "pair" (two). */
export function manner(game, symmetric) {
  if (game.A.length === 2) return "square";
  return symmetric ? "single" : "pair";
}

/** One portrait. `player` is 0, or 1 for the second triangle of a pair; `other` gives the point whose other part is
 *  held. {svg, draw(game, options), drawPaths(paths)}; `onStart(point)` is called where somebody clicks. */
export function portrait({ manner: how, player = 0, other = null, names, title, onStart }) {
  const frame = how === "square" ? SQUARE : triangle(player, how === "pair" ? other : null);
  const [field, marks, paths] = [s("g", { class: "field" }), s("g", {}), s("g", { class: "paths" })];
  const cross = s("path", { class: "cross", d: "M -7 0 H 7 M 0 -7 V 7" });
  const svg = s(
    "svg",
    { viewBox: `0 0 ${frame.width} ${frame.height}`, class: "phase", role: "img", tabindex: "0" },
    outline(frame, how, names), field, marks, paths, cross,
  );
  let at = [frame.width / 2, TOP + (how === "square" ? SIZE / 2 : TALL * 0.6)];
  const moveCross = () => {
    // Back to the nearest place inside.
    at = frame.place(frame.point(...at));
    cross.setAttribute("transform", `translate(${at[0]} ${at[1]})`);
  };
  moveCross();
  svg.addEventListener("click", (event) => {
    const box = svg.getBoundingClientRect();
    at = [
      ((event.clientX - box.left) * frame.width) / box.width,
      ((event.clientY - box.top) * frame.height) / box.height,
    ];
    moveCross();
    onStart(frame.point(...at));
  });
  svg.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: [-8, 0], ArrowRight: [8, 0], ArrowUp: [0, -8], ArrowDown: [0, 8] }[event.key];
    if (by !== undefined) at = [at[0] + by[0], at[1] + by[1]];
    else if (event.key === "Enter" || event.key === " ") onStart(frame.point(...at));
    else return;
    moveCross();
    event.preventDefault();
  });
  return {
    svg,
    draw(game, { kind, rationality, hasField, rests }) {
      field.replaceChildren(...(hasField ? arrows(game, kind, rationality, frame) : []));
      marks.replaceChildren(...rests.map((rest) => mark(frame, rest)));
      const told = rests.map(({ words }) => words).join("; ");
      svg.setAttribute(
        "aria-label",
        `${title}. Equilibria: ${told || "none"}. Arrow keys move the cross, Enter starts play there.`,
      );
    },
    drawPaths(found) {
      paths.replaceChildren(...found.flatMap(({ points, colour }) => pathOf(frame, points, colour)));
    },
  };
}

function outline(frame, how, names) {
  if (how === "square") {
    const low = names.map((actions) => actions[1]);
    const high = names.map((actions) => actions[0]);
    return s(
      "g",
      { class: "outline" },
      s("rect", { x: LEFT, y: TOP, width: SIZE, height: SIZE }),
      s("text", { x: LEFT, y: TOP + SIZE + 18 }, `← ${low[0]}`),
      s("text", { x: LEFT + SIZE, y: TOP + SIZE + 18, "text-anchor": "end" }, `${high[0]} →`),
      s("text", { x: LEFT + SIZE / 2, y: TOP + SIZE + 38, "text-anchor": "middle", class: "quiet-text" }, "row player"),
      s("text", { transform: `translate(${LEFT - 10} ${TOP + SIZE}) rotate(-90)` }, `← ${low[1]}`),
      s("text", { transform: `translate(${LEFT - 10} ${TOP}) rotate(-90)`, "text-anchor": "end" }, `${high[1]} →`),
      s(
        "text",
        {
          transform: `translate(${LEFT - 30} ${TOP + SIZE / 2}) rotate(-90)`,
          "text-anchor": "middle",
          class: "quiet-text",
        },
        "column player",
      ),
    );
  }
  const [a, b, c] = frame.corners;
  return s(
    "g",
    { class: "outline" },
    s("polygon", { points: frame.corners.map((corner) => corner.join(",")).join(" ") }),
    s("text", { x: a[0], y: a[1] + 20, "text-anchor": "middle" }, names[0]),
    s("text", { x: b[0], y: b[1] + 20, "text-anchor": "middle" }, names[1]),
    s("text", { x: c[0], y: c[1] - 9, "text-anchor": "middle" }, names[2]),
  );
}

/** Arrows of the direction of play; longer and darker where it is faster. */
function arrows(game, kind, rationality, frame) {
  const found = frame.grid().map((point) => {
    const [dx, dy] = direction(game, kind, point, rationality);
    const small = 1e-4;
    const ahead = [
      point[0].map((share, i) => share + small * dx[i]),
      point[1].map((share, i) => share + small * dy[i]),
    ];
    const [from, to] = [frame.place(point), frame.place(ahead)];
    return { from, by: [(to[0] - from[0]) / small, (to[1] - from[1]) / small] };
  });
  const fastest = Math.max(...found.map(({ by }) => Math.hypot(...by)), 1e-12);
  return found.map(({ from, by }) => {
    const speed = Math.hypot(...by);
    const share = speed / fastest;
    if (share < 1e-6) return s("circle", { class: "arrow", cx: from[0], cy: from[1], r: 1 });
    const length = frame.step * (0.32 + 0.55 * Math.sqrt(share));
    const [ux, uy] = [by[0] / speed, by[1] / speed];
    const [x0, y0] = [from[0] - (ux * length) / 2, from[1] - (uy * length) / 2];
    const [x1, y1] = [x0 + ux * length, y0 + uy * length];
    const wing = 3.4;
    const left = `${x1 - wing * (ux + 0.7 * uy)} ${y1 - wing * (uy - 0.7 * ux)}`;
    const right = `${x1 - wing * (ux - 0.7 * uy)} ${y1 - wing * (uy + 0.7 * ux)}`;
    const head = `M ${left} L ${x1} ${y1} L ${right}`;
    return s(
      "path",
      { class: "arrow", d: `M ${x0} ${y0} L ${x1} ${y1} ${head}`, style: { opacity: 0.35 + 0.65 * Math.sqrt(share) } },
    );
  });
}

/** An equilibrium: full where play comes back to it, empty where it leaves, half where neither. */
function mark(frame, { point, kind, words }) {
  const [x, y] = frame.place(point);
  const shapes = [s("circle", { class: `rest ${kind}`, cx: x, cy: y, r: 8 })];
  if (kind === "neutral") shapes.push(
    s("path", { class: "rest stable", d: `M ${x} ${y - 8} A 8 8 0 0 0 ${x} ${y + 8} Z` }),
  );
  return s("g", {}, shapes, s("title", {}, words));
}

function pathOf(frame, points, colour) {
  const places = points.map((point) => frame.place(point).map((value) => value.toFixed(2)).join(","));
  const [x, y] = frame.place(points.at(-1));
  const [x0, y0] = frame.place(points[0]);
  const style = { stroke: `var(--c${colour})` };
  return [
    s("polyline", { class: "path", points: places.join(" "), style }),
    s("circle", { class: "path-start", cx: x0, cy: y0, r: 4, style }),
    s("circle", { class: "path-end", cx: x, cy: y, r: 5, style: { fill: `var(--c${colour})` } }),
  ];
}

/** A point in words: "cooperate 0.25; swerve 0.5". */
export function pointWords(point, names) {
  return point.map(
    (part, k) => part.map((share, i) => `${names[k][i]} ${Number(share.toFixed(3))}`).join(", "),
  ).join(" / ");
}
