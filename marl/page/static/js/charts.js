// Curves, by uPlot: bands for intervals, a legend that hides and shows, values under the pointer, pictures to save.

import { h, put } from "marl/dom.js";
import { number } from "marl/format.js";
import { drawBands, drawGoal, goalOf } from "marl/parts/chart_marks.js";
import { inWords, tell, walk } from "marl/parts/chart_pointer.js";
import { savePng, saveSvg } from "marl/parts/chart_svg.js";

const COLORS = 8; // --c0 to --c7 of base.css
const DASHES = [[], [7, 4], [2, 3]]; // more curves than colours: the ninth is dashed

/** A chart of curves. A series is {label, x, y, low, high, color, dash}; low and high (an interval), color and dash may
 *  be missing. `goal` is a number or {value, label}. Returns {element, update(series), setLog(on), setLabels(x, y),
 *  setGoal(goal)};
 *  `signal` takes the chart down. */
export function curveChart({
  series,
  xLabel = "",
  yLabel = "",
  height = 280,
  log = false,
  signal,
  goal = null,
  name = "chart",
}) {
  const chart = { series: [], hidden: new Set(), xLabel, yLabel, height, log, goal, name, plot: null, shown: "" };
  build(chart);
  const update = (wanted) => {
    chart.series = wanted.map(complete);
    refresh(chart);
  };
  const observer = new ResizeObserver(() => fit(chart));
  observer.observe(chart.place);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => redraw(chart), { signal });
  signal?.addEventListener("abort", () => {
    observer.disconnect();
    chart.plot?.destroy();
  });
  update(series);
  return {
    element: chart.element,
    update,
    setLog: (on) => restart(chart, { log: on }),
    setLabels: (x, y) => restart(chart, { xLabel: x, yLabel: y }),
    setGoal: (wanted) => restart(chart, { goal: wanted }),
  };
}

/** A colour of the page, as it is at this moment: `name` is "--c0", "var(--c0)" or a colour itself. */
export function colorOf(name) {
  const variable = name.replace(/^var\((.*)\)$/, "$1").trim();
  if (!variable.startsWith("--")) return variable;
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

function complete(one, i) {
  const color = one.color ?? `--c${i % COLORS}`;
  const dash = one.dash ?? DASHES[Math.floor(i / COLORS) % DASHES.length];
  return { ...one, color, dash };
}

function build(chart) {
  chart.place = h("div", { class: "chart-plot", tabindex: "0", role: "img" });
  chart.tip = h("div", { class: "chart-tip", hidden: true, role: "status" });
  chart.legend = h(
    "div",
    { class: "chart-legend", role: "group", "aria-label": "Curves: press one to hide or show it" },
  );
  chart.empty = h("p", { class: "quiet chart-empty" }, "There is nothing to draw yet.");
  const buttons = h(
    "span",
    { class: "picture-buttons", role: "group", "aria-label": "Save this picture" },
    h("button", { class: "small", onclick: () => saveSvg(chart) }, "SVG"),
    h("button", { class: "small", onclick: () => savePng(chart) }, "PNG"),
  );
  chart.place.addEventListener("keydown", (event) => walk(chart, event));
  chart.place.addEventListener("blur", () => (chart.tip.hidden = true));
  const foot = h("div", { class: "chart-foot" }, chart.legend, buttons);
  chart.element = h("div", { class: "chart" }, chart.empty, chart.place, chart.tip, foot);
}

/** The curves that are not hidden. */
export function shownSeries(chart) {
  return chart.series.filter((one) => !chart.hidden.has(one.label));
}

// -- drawing -----------------------------------------------------------------------------------------------------

/** New numbers: into the plot that is there, or a new plot where other curves have come. */
function refresh(chart) {
  const isEmpty = !chart.series.some((one) => one.x.length > 0);
  chart.empty.hidden = !isEmpty;
  chart.place.hidden = isEmpty;
  chart.legend.parentElement.hidden = isEmpty;
  const what = JSON.stringify(chart.series.map(({ label, color, dash }) => [label, color, dash]));
  if (chart.plot !== null && what === chart.shown) {
    const { min, max } = chart.plot.scales.x;
    const [first, last] = ends(chart.plot.data[0]);
    const isZoomed = min > first || max < last;
    chart.plot.setData(table(chart), !isZoomed);
    if (isZoomed) chart.plot.redraw();
  } else {
    chart.shown = what;
    fillLegend(chart);
    restart(chart, {});
  }
  chart.place.setAttribute("aria-label", inWords(chart));
}

function ends(values) {
  return values.length ? [values[0], values[values.length - 1]] : [0, 0];
}

/** Settings that a plot cannot change afterwards: it is made anew. */
function restart(chart, changes) {
  Object.assign(chart, changes);
  chart.plot?.destroy();
  chart.plot = null;
  fit(chart);
}

function fit(chart) {
  const width = Math.floor(chart.place.clientWidth);
  if (width < 50 || chart.series.length === 0) return; // not on the page yet
  if (chart.plot === null) {
    chart.plot = new globalThis.uPlot(options(chart, width), table(chart), chart.place);
  } else if (chart.plot.width !== width) {
    chart.plot.setSize({ width, height: chart.height });
  }
}

function redraw(chart) {
  chart.plot?.redraw(false);
  fillLegend(chart);
}

/** One row of x for all curves. Where a curve has no number of its own the line goes on (undefined, not null). */
function table(chart) {
  const tables = chart.series.map((one) => [one.x, chart.log ? one.y.map(positive) : one.y]);
  return globalThis.uPlot.join(tables);
}

function positive(value) {
  return value > 0 ? value : null;
}

function options(chart, width) {
  const font = "12px system-ui, sans-serif";
  const ink = () => colorOf("--quiet");
  const lines = { stroke: () => colorOf("--line"), width: 1 };
  const axis = {
    stroke: ink,
    grid: lines,
    ticks: lines,
    font,
    labelFont: font,
    labelSize: 20,
    values: (_, splits) => marks(splits),
  };
  const sizes = (_, values) => 18 + 7 * Math.max(2, ...(values ?? []).map((text) => (text ?? "").length));
  return {
    width,
    height: chart.height,
    legend: { show: false },
    padding: [10, 22, 0, 0],
    scales: {
      x: { time: false, range: (_, low, high) => xRange(low, high) },
      y: { distr: chart.log ? 3 : 1, range: (plot) => yRange(chart, plot) },
    },
    axes: [
      { ...axis, label: chart.xLabel || null, size: 34, space: 80 },
      { ...axis, label: fitted(chart.yLabel, chart.height) || null, size: sizes },
    ],
    series: [{}, ...chart.series.map((one) => line(chart, one))],
    cursor: { y: false, points: { size: 7 }, drag: { x: true, y: false } },
    hooks: {
      drawAxes: [(plot) => drawBands(chart, plot)],
      draw: [(plot) => drawGoal(chart, plot)],
      setCursor: [(plot) => tell(chart, plot)],
    },
  };
}

/** Marks of an axis are short, and all in one unit: 0k, 5k, 10k. */
function marks(values) {
  const largest = Math.max(0, ...values.filter((value) => value !== null).map(Math.abs));
  const units = [[1e9, "G"], [1e6, "M"], [1e4, "k"]];
  const [from, letter] = units.find(([least]) => largest >= least && largest < 1e12) ?? [1, ""];
  const unit = from === 1e4 ? 1e3 : from;
  const mark = (value) => (value === 0 ? "0" : `${number(value / unit)}${letter}`);
  return values.map((value) => (value === null || value === undefined ? "" : mark(value)));
}

/** The end of a name says more than its beginning. */
function fitted(label, height) {
  const most = Math.floor(height / 8);
  return label.length > most ? `… ${label.slice(-most)}` : label;
}

function line(chart, one) {
  return {
    label: one.label,
    show: !chart.hidden.has(one.label),
    stroke: () => colorOf(one.color),
    width: 1.8,
    pxAlign: 0,
    dash: one.dash,
    points: { size: 5, fill: () => colorOf(one.color) },
  };
}

function xRange(low, high) {
  if (low === null || low === undefined) return [0, 1];
  return low === high ? [low - 1, high + 1] : [low, high];
}

/** A curve that never changes lies in the middle. */
function aroundOne(value) {
  const room = Math.abs(value) / 2 || 1;
  return [value - room, value + room];
}

/** All of the curves and intervals in sight, and the goal. */
function yRange(chart, plot) {
  const { min = -Infinity, max = Infinity } = plot.series[0]; // what the zoom shows
  let low = Infinity;
  let high = -Infinity;
  const see = (value) => {
    if (value === null || value === undefined || !Number.isFinite(value) || (chart.log && value <= 0)) return;
    low = Math.min(low, value);
    high = Math.max(high, value);
  };
  for (const one of shownSeries(chart)) {
    one.x.forEach((x, i) => {
      if (x < min || x > max) return;
      see(one.y[i]);
      see(one.low?.[i]);
      see(one.high?.[i]);
    });
  }
  see(goalOf(chart)?.value);
  if (low > high) return chart.log ? [0.1, 10] : [0, 1];
  if (chart.log) return globalThis.uPlot.rangeLog(low, high, 10, false);
  if (low === high) return aroundOne(low);
  return globalThis.uPlot.rangeNum(low, high, 0.08, true);
}

// -- the legend, and values under the pointer --------------------------------------------------------------------

function fillLegend(chart) {
  const keys = chart.series.map((one) => {
    const sign = one.dash.length ? "┅" : "━";
    const mark = h("span", { class: "chart-mark", style: { color: colorOf(one.color) } }, sign);
    const isShown = !chart.hidden.has(one.label);
    return h(
      "button",
      { class: "small", "aria-pressed": String(isShown), onclick: (event) => toggle(chart, one, event) },
      mark,
      ` ${one.label}`,
    );
  });
  put(chart.legend, keys);
}

function toggle(chart, one, event) {
  const hide = !chart.hidden.has(one.label);
  if (hide) chart.hidden.add(one.label);
  else chart.hidden.delete(one.label);
  event.currentTarget.setAttribute("aria-pressed", String(!hide));
  chart.plot?.setSeries(1 + chart.series.indexOf(one), { show: !hide });
  chart.plot?.redraw(true);
  chart.place.setAttribute("aria-label", inWords(chart));
}
