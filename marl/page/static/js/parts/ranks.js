// Scores as dots with their intervals, and shares as bars: one line for each strategy.

import { add, h, s } from "marl/dom.js";
import { number, percent } from "marl/format.js";
import { label } from "marl/parts/heat_table.js";
import { pictureButtons } from "marl/save.js";

const ROW = 24;
const WIDTH = 400;
const LETTER = 7.2; // dots of a letter, at most about
const MOST_LETTERS = 20;
const NOTHING = 1e-9; // scores below it are rounding
const MOST_ROWS = 80;

/** A ranking as `marl.analysis.report.shown` gives it, with what its numbers mean; `bare` where that stands by it. */
export function rankPlot(ranking, players = [], { bare = false } = {}) {
  const title = h("h3", {}, ranking.title);
  if (ranking.refused) {
    return h("div", { class: "rank" }, title, h("p", { class: "quiet" }, `Not ranked. ${ranking.refused}`));
  }
  const show = ranking.as_share ? share : plain;
  const several = new Set(ranking.rows.map((row) => row.population)).size > 1;
  const rows = [...ranking.rows].sort((a, b) => a.population - b.population || b.score - a.score).slice(0, MOST_ROWS);
  const words = `${ranking.title}: ${rows.map((row) => `${row.name} ${show(row.score)}`).join(", ")}`;
  const svg = intervals(rows, { show, words });
  const drawing = [
    h("div", { class: "scroll" }, svg),
    h("div", { class: "row" }, h("span", { class: "grow" }), pictureButtons(() => svg, ranking.method)),
  ];
  if (bare) return h("div", { class: "rank" }, title, drawing);
  const warning = `Do not trust ${ranking.title} here: ${ranking.warning}`;
  const apart = `One population for each of ${players.join(", ")}: scores are compared within it.`;
  return h("div", { class: "rank" },
    title,
    ranking.warning ? h("p", { class: "message warning" }, warning) : null,
    drawing,
    several ? h("p", { class: "quiet" }, apart) : null,
    h("p", { class: "meaning" }, `${ranking.title}: ${ranking.meaning} ${drawsInWords(ranking)}`),
  );
}

function drawsInWords({ draws, confidence }) {
  if (draws === 1) return "The payoffs are exact, so there is nothing to draw anew.";
  const tables = `${draws} tables with payoffs drawn anew within their errors`;
  return `Intervals (${percent(confidence)}) and the chance to be first come from ${tables}.`;
}

function share(value) {
  return `${number(Number((100 * value).toFixed(1)))} %`;
}

function plain(value) {
  return number(Math.abs(value) < NOTHING ? 0 : value, 3);
}

function sheet(height, words) {
  const size = { viewBox: `0 0 ${WIDTH} ${height}`, width: WIDTH, height };
  return s("svg", { class: "rank-plot", ...size, role: "img", "aria-label": words });
}

/** Room for names on the left. */
function leftOf(rows) {
  return 16 + LETTER * Math.min(MOST_LETTERS, Math.max(4, ...rows.map((row) => row.name.length)));
}

/** Rows of {name, score, low, high, first} as dots with intervals on one axis. */
export function intervals(rows, { show, words, first = "first", head: scores = "score", also = [] }) {
  const left = leftOf(rows);
  const right = first ? 118 : 68;
  const parts = WIDTH - left - right < 170 ? 2 : 4;
  const { from, to, ticks } = axisOf([...also, ...rows.flatMap((row) => [row.low, row.high, row.score])], parts);
  const x = (value) => left + ((value - from) / (to - from || 1)) * (WIDTH - left - right);
  const height = 22 + ROW * rows.length + 24;
  const svg = sheet(height, words);
  add(svg, head(first, scores), ticks.map((value) => [
    s("line", { x1: x(value), x2: x(value), y1: 20, y2: height - 22, class: "grid" }),
    s("text", { x: x(value), y: height - 8, "text-anchor": "middle", class: "quiet-text" }, show(value)),
  ]));
  rows.forEach((row, i) => add(svg, line(row, 22 + ROW * (i + 0.5), { x, left, show, first })));
  return svg;
}

function head(first, scores) {
  const texts = [s("text", { x: WIDTH - (first ? 54 : 4), y: 13, "text-anchor": "end", class: "quiet-text" }, scores)];
  if (first) texts.push(s("text", { x: WIDTH - 4, y: 13, "text-anchor": "end", class: "quiet-text" }, first));
  return texts;
}

function line(row, y, { x, left, show, first }) {
  const middle = { y, "dominant-baseline": "central" };
  const parts = [
    s("title", {}, `${row.name}: ${show(row.score)}, interval ${show(row.low)} to ${show(row.high)}`),
    s("text", { ...middle, x: left - 10, "text-anchor": "end" }, label(row.name, MOST_LETTERS)),
    s("line", { x1: x(row.low), x2: x(row.high), y1: y, y2: y, class: "interval" }),
    s("circle", { cx: x(row.score), cy: y, r: 5, class: "dot" }),
    s("text", { ...middle, x: WIDTH - (first ? 54 : 4), "text-anchor": "end" }, `${row.sign ?? ""}${show(row.score)}`),
  ];
  if (first) parts.push(s("text", { ...middle, x: WIDTH - 4, "text-anchor": "end" }, percent(row.first)));
  return s("g", {}, parts);
}

/** An axis that holds all values, with round numbers on it: about so many parts. */
function axisOf(values, parts) {
  const known = values.filter(Number.isFinite);
  let [low, high] = [Math.min(...known), Math.max(...known)];
  if (!(high - low > 1e-12 * Math.max(1, Math.abs(high)))) [low, high] = [low - 1, high + 1];
  const room = (high - low) * 0.04;
  const rough = (high - low) / parts;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough);
  const ticks = [];
  for (let k = Math.ceil((low - room) / step); k * step <= high + room; k += 1) {
    ticks.push(Number((k * step).toPrecision(12)));
  }
  return { from: low - room, to: high + room, ticks };
}

/** Shares of strategies as bars; `rows` are {name, share}. Those of no weight are counted, not drawn. */
export function shareBars(rows, { words, name }) {
  const drawn = rows.filter((row) => row.share > 0.0005).slice(0, MOST_ROWS);
  const left = leftOf(drawn);
  const full = WIDTH - left - 64;
  const height = ROW * drawn.length + 8;
  const most = Math.max(0.01, ...drawn.map((row) => row.share));
  const svg = sheet(height, words);
  drawn.forEach((row, i) => {
    const y = 4 + ROW * i;
    const width = Math.max(2, (full * row.share) / most);
    const middle = { y: y + ROW / 2, "dominant-baseline": "central" };
    add(svg,
      s("text", { ...middle, x: left - 10, "text-anchor": "end" }, label(row.name, MOST_LETTERS)),
      s("rect", { x: left, y: y + 4, width, height: ROW - 8, rx: 3, class: "bar" }),
      s("text", { ...middle, x: left + width + 6 }, share(row.share)));
  });
  const none = rows.length - drawn.length;
  return h("div", { class: "rank" },
    h("div", { class: "scroll" }, svg),
    h("div", { class: "row" },
      h("span", { class: "grow quiet" }, none > 0 ? `${none} more are played never or hardly ever (at most 0.05 %).` : ""),
      pictureButtons(() => svg, name)),
  );
}
