// The payoff table as a table of numbers: for those who read rather than look, and to copy.

import { h } from "marl/dom.js";
import { number } from "marl/format.js";
import { cellAt, numbersAt } from "marl/parts/heat_table.js";

/** The table of a heat map as it is looked at now. */
export function asTable(map, titles, inWords) {
  const names = map.payoffs.names[map.look.row];
  const rows = map.rows.map((r) => {
    const cells = map.columns.map((c) => {
      const cell = cellAt(map.look, r, c);
      return h("td", { class: "number", title: inWords(map, cell) }, written(numbersAt(map.payoffs, map.look, cell)));
    });
    return h("tr", {}, h("th", { scope: "row" }, names[r]), cells);
  });
  const head = h("tr", {}, h("td", {}), titles.map((title) => h("th", { scope: "col", class: "number" }, title)));
  const caption = h("caption", {}, "Mean ± standard error of an episode's payoff");
  const table = h("table", {}, caption, h("thead", {}, head), h("tbody", {}, rows));
  return h("div", { class: "scroll", tabindex: "0" }, table);
}

function written({ mean, stderr }) {
  if (mean === null) return "–";
  return stderr > 0 ? `${number(mean, 3)} ± ${number(stderr, 2)}` : number(mean, 3);
}
