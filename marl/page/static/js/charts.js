// Curves, by uPlot.

import { h } from "marl/dom.js";

/** A chart of curves. A series is {label, x, y, low, high, color}; low and high (an interval) and color may be missing.
 *  Returns {element, update(series)}; `signal` takes the chart down. */
export function curveChart({ series, xLabel = "", yLabel = "", height = 280, signal }) {
  void [series, xLabel, yLabel, height, signal];
  return { element: h("div", { class: "chart" }), update() {} };
}
