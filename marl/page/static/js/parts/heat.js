// The payoff table as a heat map: colours through the ground, numbers in the cells, every cell a link to its match.

import { add, h, put, s } from "marl/dom.js";
import { number } from "marl/format.js";
import { asTable } from "marl/parts/heat_numbers.js";
import { cellAt, firstLook, isOnePopulation, label, numbersAt, orderOf, scaleOf } from "marl/parts/heat_table.js";
import { pictureButtons } from "marl/save.js";

const LETTER = 7.4; // dots of a letter, at most about
const ROOM = 1080; // dots for all columns
const MOST_LETTERS = { row: 26, column: 20 };
const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const STEPS = 9; // colours of the legend

/** A heat map. `payoffs` is the JSON of a payoff table, `ranks` what it can be sorted by, `linkOf(cell)` the address of
 *  a match (null: none). Returns {element, update({payoffs, ranks, linkOf, zeroSum})}. */
export function heatMap({ payoffs, ranks = [], linkOf = () => null, zeroSum = false, name = "payoffs" }) {
  const map = { payoffs, ranks, linkOf, zeroSum, look: firstLook(payoffs), focus: [0, 0] };
  map.controls = h("div", { class: "row heat-controls" });
  const how = "Payoff table: arrow keys move from cell to cell";
  map.place = h("div", { class: "scroll heat-scroll", role: "group", "aria-label": how });
  map.detail = h("p", { class: "heat-detail" });
  map.numbers = h("details", { class: "heat-numbers" }, h("summary", {}, "The same as a table of numbers"));
  map.numbers.addEventListener("toggle", () => fillNumbers(map));
  map.place.addEventListener("keydown", (event) => walk(map, event));
  for (const kind of ["pointerover", "focusin"]) map.place.addEventListener(kind, (event) => tell(map, event));
  draw(map);
  const foot = h("div", { class: "picture-foot" }, map.detail, pictureButtons(() => map.svg, name));
  const element = h("div", { class: "heat" }, map.controls, map.place, foot, map.numbers);
  return { element, update: (changes) => update(map, changes) };
}

function update(map, changes) {
  const sizes = (table) => table.names.map((names) => names.length).join();
  const other = changes.payoffs && sizes(changes.payoffs) !== sizes(map.payoffs);
  Object.assign(map, changes);
  if (other) {
    map.look.fixed = map.look.fixed.map((i, player) => Math.min(i, map.payoffs.names[player].length - 1));
    map.focus = [0, 0];
  }
  draw(map);
}

// -- what is chosen ---------------------------------------------------------------------------------------------------

function choice(text, options, chosen, choose) {
  const entries = options.map(([value, words]) => h("option", { value, selected: value === String(chosen) }, words));
  return h("label", {}, `${text} `, h("select", { onchange: (event) => choose(event.target.value) }, entries));
}

function fillControls(map) {
  const { payoffs, look } = map;
  const set = (changes) => {
    Object.assign(look, changes);
    draw(map);
  };
  const sorts = map.ranks.filter((ranking) => ranking.rows).map((ranking) => [ranking.method, ranking.title]);
  const parts = [];
  if (sorts.length) parts.push(choice("Order", [["", "as given"], ...sorts], look.sort, (sort) => set({ sort })));
  const players = payoffs.players.map((player, i) => [String(i), player]);
  if (players.length > 2) {
    parts.push(choice("Rows", players, look.row, (i) => set(swapped(look, "row", Number(i)))));
    parts.push(choice("Columns", players, look.column, (i) => set(swapped(look, "column", Number(i)))));
  }
  const sameForAll = isOnePopulation(payoffs) || (players.length === 2 && map.zeroSum);
  if (players.length > 1 && !sameForAll) {
    parts.push(choice("What is earned by", players, look.earner, (i) => set({ earner: Number(i) })));
  }
  payoffs.players.forEach((player, p) => {
    if (p === look.row || p === look.column) return;
    const names = payoffs.names[p].map((name, i) => [String(i), name]);
    const choose = (i) => set({ fixed: look.fixed.map((old, q) => (q === p ? Number(i) : old)) });
    parts.push(choice(`${player} plays`, names, look.fixed[p], choose));
  });
  put(map.controls, parts);
}

/** Rows and columns are never the same player: whoever is taken changes places. */
function swapped(look, side, player) {
  const other = side === "row" ? "column" : "row";
  return look[other] === player ? { [side]: player, [other]: look[side] } : { [side]: player };
}

// -- drawing ----------------------------------------------------------------------------------------------------------

function draw(map) {
  fillControls(map);
  const { payoffs, look } = map;
  const ranking = map.ranks.find((one) => one.method === look.sort);
  map.rows = orderOf(payoffs, look.row, ranking);
  map.columns = look.column === null ? [0] : orderOf(payoffs, look.column, ranking);
  map.scale = scaleOf(payoffs, look);
  const hadFocus = map.place.contains(document.activeElement);
  map.svg = picture(map);
  put(map.place, map.svg);
  fillNumbers(map);
  put(map.detail, hint(map));
  if (hadFocus) focus(map, ...map.focus);
}

function hint(map) {
  const how = "Point at one, or walk with the arrow keys, for its error.";
  if (map.look.column === null) return `Each cell: what was earned on average. ${how}`;
  const link = map.linkOf(cellAt(map.look, map.rows[0], map.columns[0]));
  const opens = link === null ? "" : " A click, or Enter, opens the match.";
  return `Each cell: what ${earnerWords(map)} earned on average. ${how}${opens}`;
}

function earnerWords(map) {
  const { payoffs, look } = map;
  return isOnePopulation(payoffs) ? "the row's entrant" : payoffs.players[look.earner];
}

/** Sizes that fit many columns: cells shrink, then lose their errors, then their numbers. */
function sizesOf(map) {
  const longest = (names, most) => LETTER * Math.min(most, Math.max(...names.map((name) => name.length)));
  const width = Math.max(20, Math.min(62, Math.floor(ROOM / map.columns.length)));
  const left = 16 + longest(map.rows.map((r) => map.payoffs.names[map.look.row][r]), MOST_LETTERS.row);
  const plain = longest(columnTitles(map), 100);
  if (plain <= width - 4) return { width, height: heightOf(width), left, top: 26, turned: false, right: 8 };
  const turned = 0.71 * longest(columnTitles(map), MOST_LETTERS.column);
  const right = Math.max(8, turned - width / 2 + 12);
  return { width, height: heightOf(width), left, top: 18 + turned, turned: true, right };
}

function heightOf(width) {
  return width < 30 ? width : Math.max(26, Math.min(42, width));
}

function columnTitles(map) {
  if (map.look.column === null) return ["payoff"];
  return map.columns.map((c) => map.payoffs.names[map.look.column][c]);
}

function picture(map) {
  const sizes = sizesOf(map);
  const cells = sizes.left + sizes.width * map.columns.length;
  const bottom = sizes.top + sizes.height * map.rows.length;
  const width = Math.max(cells + sizes.right, sizes.left + 250);
  const height = bottom + 46;
  const svg = s("svg", { class: "heat-map", width, height, viewBox: `0 0 ${width} ${height}`, role: "group" });
  svg.setAttribute("aria-label", `Payoff table of ${map.rows.length} rows and ${map.columns.length} columns`);
  map.columns.forEach((_, j) => svg.append(columnTitle(map, sizes, j)));
  map.rows.forEach((r, i) => {
    const y = sizes.top + sizes.height * (i + 0.5);
    const text = map.payoffs.names[map.look.row][r];
    const place = { x: sizes.left - 8, y, "text-anchor": "end", "dominant-baseline": "central" };
    svg.append(s("text", { ...place, class: "heat-row" }, label(text, MOST_LETTERS.row), s("title", {}, text)));
  });
  map.cells = map.rows.map((r, i) => map.columns.map((c, j) => cellOf(map, sizes, i, j, cellAt(map.look, r, c))));
  add(svg, map.cells, legend(map, sizes.left, bottom + 14));
  return svg;
}

function columnTitle(map, sizes, j) {
  const text = columnTitles(map)[j];
  const x = sizes.left + sizes.width * (j + 0.5);
  const y = sizes.top - 8;
  const turned = { transform: `rotate(-45 ${x} ${y})`, "text-anchor": "start" };
  const place = sizes.turned ? turned : { "text-anchor": "middle" };
  const shown = label(text, sizes.turned ? MOST_LETTERS.column : 40);
  return s("text", { x, y, class: "heat-column", ...place }, shown, s("title", {}, text));
}

function cellOf(map, sizes, i, j, cell) {
  const { mean, stderr } = numbersAt(map.payoffs, map.look, cell);
  const href = map.linkOf(cell);
  const isFirst = i === map.focus[0] && j === map.focus[1];
  const words = inWords(map, cell);
  const attributes = { class: "heat-cell", tabindex: isFirst ? 0 : -1, "data-place": `${i},${j}`, "aria-label": words };
  const group = href === null ? s("g", { ...attributes, role: "img" }) : s("a", { ...attributes, href });
  const x = sizes.left + sizes.width * j;
  const y = sizes.top + sizes.height * i;
  const box = { x: x + 1, y: y + 1, width: sizes.width - 2, height: sizes.height - 2, rx: 3 };
  add(group, s("rect", { ...box, class: "heat-ground" }), s("rect", { ...box, ...shade(mean, map.scale) }));
  if (sizes.width < 26) return group;
  const hasError = sizes.width >= 46 && stderr > 0;
  const middle = { x: x + sizes.width / 2, "text-anchor": "middle", "dominant-baseline": "central" };
  const size = sizes.width < 34 ? "tiny" : sizes.width < 46 ? "small" : "";
  const y0 = y + sizes.height / 2;
  const shown = fitting(mean, sizes.width, map.scale.reach);
  group.append(s("text", { ...middle, y: hasError ? y0 - 6 : y0, class: `heat-mean ${size}` }, shown));
  if (hasError) group.append(s("text", { ...middle, y: y0 + 9, class: `heat-error ${size}` }, `± ${brief(stderr)}`));
  return group;
}

function shade(mean, { middle, reach }) {
  if (mean === null) return { class: "heat-none" };
  const strength = (mean - middle) / reach;
  return { class: strength < 0 ? "heat-low" : "heat-high", style: { "--strength": Math.abs(strength).toFixed(3) } };
}

/** Two digits are enough for a cell; the line below has more. */
function brief(value) {
  if (value === null) return "–";
  const digits = Math.abs(value) >= 100 ? 3 : 2;
  return number(Number(value.toPrecision(digits)));
}

/** As many digits as fit into a cell; nothing where none do. */
function fitting(value, width, reach) {
  if (value === null) return "–";
  const short = [2, 1, 0].map((digits) => bare(value.toFixed(digits)));
  const isSmall = width < 46;
  const room = (width - 3) / (width < 34 ? 5.6 : isSmall ? 6.4 : 7.4);
  // In small cells all numbers have as many digits as their neighbours.
  const first = isSmall && reach < 10 ? [] : [brief(value)];
  return [...first, ...short].find((text) => text.length <= room) ?? "";
}

/** Without what a reader adds alone: .05 for 0.05, and 0 for −0. */
function bare(text) {
  return Number(text) === 0 ? "0" : text.replace(/^(-?)0\./, "$1.").replace("-", "−");
}

function legend(map, x, y) {
  const { low, high, middle, reach } = map.scale;
  const width = 22;
  const boxes = Array.from({ length: STEPS }, (_, i) => {
    const value = middle + (2 * i / (STEPS - 1) - 1) * reach;
    return s("rect", { x: x + width * i, y, width, height: 10, ...shade(value, map.scale) });
  });
  const end = x + width * STEPS;
  const words = [["start", x, middle - reach], ["middle", (x + end) / 2, middle], ["end", end, middle + reach]];
  const texts = words.map(([anchor, place, value]) =>
    s("text", { x: place, y: y + 25, "text-anchor": anchor, class: "heat-key" }, number(value, 3)));
  const frame = s("rect", { x, y, width: width * STEPS, height: 10, class: "heat-frame" });
  return s("g", { role: "img", "aria-label": `Colours from ${number(low)} to ${number(high)}` }, boxes, frame, texts);
}

function fillNumbers(map) {
  if (map.numbers.open) put(map.numbers, map.numbers.firstChild, asTable(map, columnTitles(map), inWords));
}

// -- pointing and walking ---------------------------------------------------------------------------------------------

/** A cell as a sentence. */
export function inWords(map, cell) {
  const { payoffs, look } = map;
  const { mean, stderr, count } = numbersAt(payoffs, look, cell);
  const who = cell.map((i, player) => payoffs.names[player][i]);
  const meets = who.length === 1 ? who[0] : `${who[look.row]} against ${who[look.column]}`;
  const others = who.filter((_, player) => player !== look.row && player !== look.column);
  const start = others.length && who.length > 2 ? `${meets} (beside them ${others.join(", ")})` : meets;
  if (mean === null) return `${start}: nobody has played this yet.`;
  const earner = isOnePopulation(payoffs) || who.length === 1 ? "" : `${payoffs.players[look.earner]} earns `;
  if (count === 0) return `${start}: ${earner}${number(mean)}, exactly.`;
  const [low, high] = [mean - 2 * stderr, mean + 2 * stderr].map((value) => number(value, 3));
  const within = `the truth is about 95 % surely between ${low} and ${high}`;
  const sure = stderr > 0 ? `${within} (standard error ${number(stderr, 2)})` : "all episodes paid the same";
  return `${start}: ${earner}${number(mean)} on average over ${number(count)} episodes; ${sure}.`;
}

function placeOf(event) {
  const found = event.target.closest?.(".heat-cell");
  return found ? found.dataset.place.split(",").map(Number) : null;
}

function tell(map, event) {
  const place = placeOf(event);
  if (place === null) return;
  const [i, j] = place;
  const cell = cellAt(map.look, map.rows[i], map.columns[j]);
  const link = map.linkOf(cell);
  const watch = link === null ? null : [" ", h("a", { href: link }, "Watch this match")];
  put(map.detail, inWords(map, cell), watch);
  const mark = (selector, k) =>
    map.svg.querySelectorAll(selector).forEach((text, n) => text.classList.toggle("marked", n === k));
  mark(".heat-row", i);
  mark(".heat-column", j);
}

function focus(map, i, j) {
  const [before, after] = [map.cells[map.focus[0]]?.[map.focus[1]], map.cells[i]?.[j]];
  if (!after) return;
  before?.setAttribute("tabindex", -1);
  after.setAttribute("tabindex", 0);
  map.focus = [i, j];
  after.focus();
}

function walk(map, event) {
  const place = placeOf(event);
  if (place === null || event.altKey || event.ctrlKey || event.metaKey) return;
  const [i, j] = place;
  const ends = { Home: [i, 0], End: [i, map.columns.length - 1] };
  const move = MOVES[event.key];
  const wanted = move ? [i + move[0], j + move[1]] : ends[event.key];
  if (!wanted) return;
  event.preventDefault();
  focus(map, ...wanted);
}
