// Roads from above, with cars and traffic lights.

import { s } from "marl/dom.js";
import { box, fillPaper, line, paper, path, word } from "marl/draw/paper.js";

const CELL = 34;
const TURNS = { right: 0, down: 90, left: 180, up: 270 };

/** Roads on a grid; a light is green for one of the two directions that cross there. */
export function trafficDrawing({ seat }) {
  const sheet = paper("traffic");
  let roads = "";
  let ground = [];
  return {
    element: sheet,
    show(scene) {
      const now = JSON.stringify(scene.roads);
      if (now !== roads) ground = groundParts(scene);
      roads = now;
      const lights = (scene.lights ?? []).map((light) => lightParts(light, light.name === seat));
      const cars = (scene.cars ?? []).map((car) => carParts(car, car.name === seat));
      fillPaper(sheet, scene.columns * CELL, scene.rows * CELL, scene.text, ground, lights, cars);
    },
  };
}

function groundParts(scene) {
  const parts = [box(0, 0, scene.columns * CELL, scene.rows * CELL, "traffic-ground", 8)];
  for (const road of scene.roads) parts.push(roadBar(road, "road", 4));
  // All lines lie over all roads: where two cross there are none.
  for (const road of scene.roads) parts.push(laneLine(road, scene.roads));
  for (const road of scene.roads) parts.push(roadName(road));
  return parts;
}

function span({ start, end }) {
  const [x0, x1] = [Math.min(start[0], end[0]), Math.max(start[0], end[0])];
  const [y0, y1] = [Math.min(start[1], end[1]), Math.max(start[1], end[1])];
  return { x0, x1, y0, y1 };
}

function roadBar(road, name, inset) {
  const { x0, x1, y0, y1 } = span(road);
  const across = y0 === y1;
  const [dx, dy] = across ? [0, inset] : [inset, 0];
  const size = [(x1 - x0 + 1) * CELL - 2 * dx, (y1 - y0 + 1) * CELL - 2 * dy];
  return s("rect", { x: x0 * CELL + dx, y: y0 * CELL + dy, width: size[0], height: size[1], class: name });
}

/** Short strokes at the edges of the cells, which show the direction by their arrow at the beginning. */
function laneLine(road, roads) {
  const { x0, x1, y0, y1 } = span(road);
  const across = y0 === y1;
  const others = roads.filter((other) => other !== road).map(span);
  const crossed = (x, y) => others.some((o) => x >= o.x0 && x <= o.x1 && y >= o.y0 && y <= o.y1);
  const strokes = [];
  for (let x = x0; x <= x1; x += 1) {
    for (let y = y0; y <= y1; y += 1) {
      if (crossed(x, y)) continue;
      const [cx, cy] = [(x + 0.5) * CELL, (y + 0.5) * CELL];
      strokes.push(across ? `M${cx - 6} ${cy}h12` : `M${cx} ${cy - 6}v12`);
    }
  }
  return path(strokes.join(""), "lane");
}

function roadName(road) {
  const { x0, y0, y1 } = span(road);
  const across = y0 === y1;
  const [x, y] = across ? [x0 * CELL + 6, y0 * CELL - 9] : [(x0 + 1) * CELL + 4, y0 * CELL + 12];
  return word(x, y, road.name, { name: "quiet-word", anchor: "start", most: 16, size: 11 });
}

function carParts(car, isSeat) {
  const [x, y] = [(car.x + 0.5) * CELL, (car.y + 0.5) * CELL];
  const turned = `translate(${x} ${y}) rotate(${TURNS[car.heading] ?? 0})`;
  const body = [box(-13, -8, 26, 16, car.moved ? "car" : "car waiting", 5), box(1, -6, 6, 12, "car-window", 2)];
  // Cars that stand have red lights behind, so that colours are not alone.
  const brakes = car.moved ? null : [box(-13, -7, 3, 4, "brake", 1), box(-13, 3, 3, 4, "brake", 1)];
  const own = isSeat ? box(-16, -11, 32, 22, "car-own", 7) : null;
  const number = /(\d+)$/.exec(car.name)?.[1] ?? "";
  // On the back of the car, behind the window.
  const [dx, dy] = TURNS[car.heading] % 180 ? [0, -5] : [-5, 0];
  const label = word(x + dx, y + dy, number, { name: "on-colour", size: 11 });
  return s("g", {}, s("g", { transform: turned }, own, body, brakes), label, s("title", {}, car.name));
}

/** One lamp for cars that come from the left, one for those from above; the open way also has a bar. */
function lightParts(light, isSeat) {
  const [x, y] = [light.x * CELL, light.y * CELL];
  const level = light.green === "right" || light.green === "left";
  const lamp = (dx, dy, green) => {
    const name = light.dark ? "lamp dark" : green ? "lamp green" : "lamp red";
    return s("circle", { cx: x + dx, cy: y + dy, r: 6, class: name });
  };
  const [cx, cy, long] = [x + CELL / 2, y + CELL / 2, CELL / 2 - 8];
  const bar = level ? line(cx - long, cy, cx + long, cy, "open") : line(cx, cy - long, cx, cy + long, "open");
  const frame = isSeat ? box(x - 1, y - 1, CELL + 2, CELL + 2, "car-own", 3) : null;
  const told = light.dark ? `${light.name} is dark` : `${light.name}: green for cars that go ${light.green}`;
  const lamps = [lamp(-8, CELL + 6, level), lamp(-8, -8, !level)];
  return s("g", {}, frame, light.dark ? null : bar, lamps, s("title", {}, told));
}
