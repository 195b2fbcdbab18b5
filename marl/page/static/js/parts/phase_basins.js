// Basins of attraction in a list: where play ends, and from which share of all starts.

import { h } from "marl/dom.js";
import { pointWords } from "marl/parts/phase_portrait.js";

/** `told` is what marl answers, or {message} where it could not. */
export function basinList(told, game) {
  if (told.message !== undefined) return h("p", { class: "quiet" }, told.message);
  const rows = told.basins.map(({ attractor, area, interval }) => row(
    pointWords(attractor, game.actions),
    area,
    interval,
  ));
  if (told.unsettled > 0) rows.push(row("play does not come to rest", told.unsettled, told.unsettled_interval));
  return [
    h("ul", { class: "rests" }, rows),
    h("p", { class: "quiet" }, `Shares of ${told.starts} random starts, with 95 % intervals.`),
  ];
}

function row(where, share, [low, high]) {
  return h("li", {}, where, h("span", { class: "quiet" }, ` from ${percent(share)} (${percent(low)} to ${percent(high)})`));
}

function percent(share) {
  return `${(100 * share).toFixed(0)} %`;
}
