// A report in which scripts run: tables and pictures become the drawings of marl watch. Whatever fails stays as it was.

import { h } from "marl/dom.js";
import { boundsPlot } from "marl/parts/bounds.js";
import { responseGraph } from "marl/parts/graph.js";
import { heatMap } from "marl/parts/heat.js";
import { rankPlot } from "marl/parts/ranks.js";

const PARTS = {
  heat: ({ payoffs, ranks, zero_sum: zeroSum }) => heatMap({ payoffs, ranks, zeroSum }).element,
  rank: ({ ranks, players }, method) => rankPlot(ranks.find((one) => one.method === method), players, { bare: true }),
  graph: ({ graph, payoffs }) => responseGraph({ graph, names: payoffs.names, bare: true }).element,
  bounds: ({ bounds }) => boundsPlot(bounds, { bare: true }),
};

function show(place, data) {
  const still = place.nextElementSibling;
  try {
    place.append(PARTS[place.dataset.part](data, place.dataset.key));
    if (place.dataset.part === "rank") place.append(asNumbers(still));
    place.hidden = false;
    still.classList.add("replaced");
  } catch (error) {
    console.error(error);
  }
}

/** The table whose place a drawing took. */
function asNumbers(still) {
  const summary = h("summary", {}, "The same as a table of numbers");
  return h("details", { class: "heat-numbers" }, summary, still.querySelector(".scroll").cloneNode(true));
}

const data = JSON.parse(document.getElementById("data").textContent);
if (data !== null) document.querySelectorAll(".live").forEach((place) => show(place, data));
document.documentElement.dataset.ready = "report";
