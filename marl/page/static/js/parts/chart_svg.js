// A chart of curves as a drawing of lines and texts: sharp at every size, of the data and not of the screen's dots.

import { colorOf, shownSeries } from "marl/charts.js";
import { h, s } from "marl/dom.js";
import { bandCorners, goalOf } from "marl/parts/chart_marks.js";
import { download } from "marl/save.js";

const FONT = "system-ui, 'Segoe UI', Helvetica, Arial, sans-serif";
const LINE = 18; // height of a line of the legend

/** The chart as it is shown (its zoom, its scale, the curves that are not hidden) as an SVG element. */
export function chartSvg(chart, series) {
  const { plot } = chart;
  const dots = globalThis.uPlot.pxRatio;
  const [left, top, width, height] = ["left", "top", "width", "height"].map((side) => plot.bbox[side] / dots);
  const box = { left, top, width, height };
  const keys = legend(series, plot.width, chart.height + 4);
  const all = { width: plot.width, height: chart.height + keys.height + 10 };
  return s(
    "svg",
    {
      xmlns: "http://www.w3.org/2000/svg",
      ...all,
      viewBox: `0 0 ${all.width} ${all.height}`,
      "font-family": FONT,
      "font-size": 12,
    },
    s("title", {}, `${chart.yLabel || "values"} over ${chart.xLabel || "x"}`),
    s("rect", { ...all, fill: colorOf("--ground") }),
    s("clipPath", { id: "box" }, s("rect", rectangle(box))),
    axes(chart, box),
    s("g", { "clip-path": "url(#box)" }, series.map((one) => curve(chart, one))),
    goalLine(chart, box),
    keys.element,
  );
}

function rectangle({ left, top, width, height }) {
  return { x: left, y: top, width, height };
}

function place(plot, value, scale) {
  const side = scale === "x" ? plot.over.offsetLeft : plot.over.offsetTop;
  return Math.round(100 * (plot.valToPos(value, scale) + side)) / 100;
}

function axes(chart, { left, top, width, height }) {
  const { plot } = chart;
  const [line, ink] = [colorOf("--line"), colorOf("--quiet")];
  const group = s("g", { stroke: line, fill: ink });
  const text = (x, y, anchor, content, more = {}) =>
    group.append(s("text", { x, y, "text-anchor": anchor, stroke: "none", ...more }, content));
  // The marks that the chart on the page has: uPlot keeps them with its axes.
  const marks = ({ _splits: at, _values: texts }) => (at ?? []).map((value, i) => [value, texts?.[i] ?? ""]);
  for (const [value, label] of marks(plot.axes[0])) {
    const x = place(plot, value, "x");
    group.append(s("line", { x1: x, x2: x, y1: top, y2: top + height + 4 }));
    text(x, top + height + 18, "middle", label);
  }
  for (const [value, label] of marks(plot.axes[1])) {
    if (label === "") continue;
    const y = place(plot, value, "y");
    group.append(s("line", { x1: left - 4, x2: left + width, y1: y, y2: y }));
    text(left - 8, y + 4, "end", label);
  }
  text(left + width / 2, top + height + 36, "middle", chart.xLabel);
  text(12, top + height / 2, "middle", chart.yLabel, { transform: `rotate(-90 12 ${top + height / 2})` });
  return group;
}

/** A band and a line; where a number is missing on purpose the line has a gap. */
function curve(chart, one) {
  const { plot, log } = chart;
  const color = colorOf(one.color);
  const point = ([x, y]) => `${place(plot, x, "x")},${place(plot, y, "y")}`;
  const band = one.low ? s(
    "polygon",
    { points: bandCorners(one, log).map(point).join(" "), fill: color, opacity: 0.18 },
  ) : null;
  let path = "";
  let isOn = false;
  one.x.forEach((x, i) => {
    const y = one.y[i];
    const isThere = Number.isFinite(y) && (!log || y > 0);
    if (isThere) path += `${isOn ? "L" : "M"}${point([x, y])}`;
    isOn = isThere;
  });
  const dash = one.dash.length ? one.dash.join(" ") : null;
  // Round ends: a curve of a single point is a dot.
  const line = {
    d: path,
    fill: "none",
    stroke: color,
    "stroke-width": 1.8,
    "stroke-dasharray": dash,
    "stroke-linecap": "round",
  };
  if (one.x.length === 1) Object.assign(line, { d: `${path}h0`, "stroke-width": 6 });
  return s("g", {}, band, s("path", line));
}

function goalLine(chart, { left, top, width }) {
  const goal = goalOf(chart);
  if (goal === null || (chart.log && goal.value <= 0)) return null;
  const y = place(chart.plot, goal.value, "y");
  const color = colorOf("--good");
  const below = y - top < 18;
  return s(
    "g",
    {},
    s(
      "line",
      { x1: left, x2: left + width, y1: y, y2: y, stroke: color, "stroke-width": 1.5, "stroke-dasharray": "8 5" },
    ),
    s("text", { x: left + width - 4, y: below ? y + 14 : y - 5, "text-anchor": "end", fill: color }, goal.label),
  );
}

/** Names of the curves, in as many lines as they need. */
function legend(series, width, top) {
  const element = s("g", { fill: colorOf("--text") });
  let x = 14;
  let y = top + 10;
  for (const one of series) {
    const wide = 40 + 7.2 * one.label.length;
    if (x + wide > width && x > 14) [x, y] = [14, y + LINE];
    const dash = one.dash.length ? one.dash.join(" ") : null;
    element.append(
      s(
        "line",
        { x1: x, x2: x + 18, y1: y, y2: y, stroke: colorOf(one.color), "stroke-width": 3, "stroke-dasharray": dash },
      ),
      s("text", { x: x + 24, y: y + 4 }, one.label),
    );
    x += wide;
  }
  return { element, height: y - top + 8 };
}

// -- pictures ----------------------------------------------------------------------------------------------------

/** Save the chart as a vector drawing. */
export function saveSvg(chart) {
  const text = new XMLSerializer().serializeToString(chartSvg(chart, shownSeries(chart)));
  download(new Blob([text], { type: "image/svg+xml" }), `${chart.name}.svg`);
}

/** Save the chart as a picture with twice the dots. */
export async function savePng(chart) {
  const svg = chartSvg(chart, shownSeries(chart));
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(svg))}`;
  await picture.decode();
  const [width, height] = ["width", "height"].map((side) => 2 * Number(svg.getAttribute(side)));
  const canvas = h("canvas", { width, height });
  canvas.getContext("2d").drawImage(picture, 0, 0, width, height);
  canvas.toBlob((content) => download(content, `${chart.name}.png`), "image/png");
}
