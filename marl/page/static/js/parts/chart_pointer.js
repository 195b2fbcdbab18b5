// What a chart tells at the pointer, at the keyboard, and in words.

import { colorOf, shownSeries } from "marl/charts.js";
import { h, put } from "marl/dom.js";
import { interval, number } from "marl/format.js";

const MOST_TOLD = 12; // lines in the box under the pointer

/** The place in a sorted list that is nearest to a value. */
export function nearest(values, wanted) {
  let [low, high] = [0, values.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (values[middle] <= wanted) low = middle;
    else high = middle;
  }
  return high > low && Math.abs(values[high] - wanted) < Math.abs(values[low] - wanted) ? high : low;
}

/** The box with the values of all curves at the pointer. */
export function tell(chart, plot) {
  const { left, idx } = plot.cursor;
  chart.tip.hidden = left < 0 || idx === null || idx === undefined;
  if (chart.tip.hidden) return;
  const x = plot.data[0][idx];
  const told = [];
  for (const one of shownSeries(chart)) {
    // Outside of a curve there is nothing to tell: it began later, or has ended.
    if (one.x.length === 0 || x < one.x[0] || x > one.x[one.x.length - 1]) continue;
    const i = nearest(one.x, x);
    if (one.y[i] !== null) told.push({ one, y: one.y[i], low: one.low?.[i], high: one.high?.[i] });
  }
  told.sort((a, b) => b.y - a.y);
  const lines = told.slice(0, MOST_TOLD).map(({ one, y, low, high }) => {
    const mark = h("span", { style: { color: colorOf(one.color) } }, "●");
    return h("div", {}, mark, ` ${one.label}: `, h("b", {}, interval(y, low, high)));
  });
  const more = told.length > MOST_TOLD ? h("div", { class: "quiet" }, `and ${told.length - MOST_TOLD} more`) : null;
  put(chart.tip, h("div", { class: "quiet" }, `${chart.xLabel || "x"} ${number(x)}`), lines, more);
  // Beside the pointer, on the side where there is room.
  const at = plot.over.offsetLeft + chart.place.offsetLeft + left;
  const isRight = left > plot.over.clientWidth / 2;
  chart.tip.style.left = isRight ? "auto" : `${at + 14}px`;
  chart.tip.style.right = isRight ? `${chart.element.clientWidth - at + 14}px` : "auto";
  chart.tip.style.top = `${chart.place.offsetTop + 12}px`;
}

/** Arrow keys move from point to point, Escape leaves and zooms out again. */
export function walk(chart, event) {
  const { plot } = chart;
  const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
  if (plot === null || plot.data[0].length === 0) return;
  if (event.key === "Escape") {
    plot.setData(plot.data);
    plot.setCursor({ left: -10, top: -10 });
  }
  if (!(event.key in steps)) return;
  event.preventDefault();
  const last = plot.data[0].length - 1;
  const from = plot.cursor.left < 0 ? -1 : (plot.cursor.idx ?? -1);
  const to = Math.min(last, Math.max(0, from + steps[event.key]));
  plot.setCursor({ left: plot.valToPos(plot.data[0][to], "x"), top: plot.over.clientHeight / 2 });
}

/** The chart in a sentence, for those who cannot see it. */
export function inWords(chart) {
  const told = shownSeries(chart).slice(0, MOST_TOLD).map((one) => {
    const y = one.y.filter((value) => value !== null && value !== undefined);
    if (y.length === 0) return `${one.label}: no values`;
    return `${one.label}: ${y.length} points from ${number(y[0])} to ${number(y[y.length - 1])}`;
  });
  const what = `Curves of ${chart.yLabel || "values"} over ${chart.xLabel || "x"}`;
  return `${what}. ${told.join("; ")}. Arrow keys read the points.`;
}
