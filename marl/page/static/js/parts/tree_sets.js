// All information sets of a game, those first at which most is lost.

import { h, put } from "marl/dom.js";
import { number } from "marl/format.js";
import { badge } from "marl/parts/tree_drawing.js";

const MOST = 14; // lines; a search finds the others

/** The list with its search; it follows the model by itself. */
export function setList(model) {
  const { tree } = model;
  const search = h("input", {
    type: "search",
    placeholder: "Search: K, raise …",
    "aria-label": "Search information sets",
    oninput: () => sort(),
  });
  const body = h("tbody", {});
  const rest = h("p", { class: "quiet" });
  const head = ["Player", "Knows", "Reach", "Loses there"].map(
    (name, k) => h("th", { scope: "col", class: k > 1 ? "number" : null }, name),
  );
  let lines = [];

  const fits = (set) => {
    const text = `${tree.players[tree.setPlayer[set]]} ${model.words(set)}`.toLowerCase();
    return search.value.toLowerCase().split(/\s+/).every((word) => text.includes(word));
  };
  const sort = () => {
    const found = Array.from({ length: tree.I }, (_, set) => set).filter(fits);
    const loss = new Map(found.map((set) => [set, model.lossAt(set)]));
    const reach = new Map(found.map((set) => [set, model.reachOf(set).all]));
    found.sort((a, b) => near(loss.get(b)) - near(loss.get(a)) || near(reach.get(b)) - near(reach.get(a)) || a - b);
    lines = found.slice(0, MOST).map((set) => line(model, set));
    put(body, lines.map((one) => one.element));
    const left = found.length - lines.length;
    const more = left > 0 ? `… and ${left.toLocaleString("en")} more: search to find them.` : "";
    put(rest, found.length ? more : "Nothing fits.");
    refresh();
  };
  const refresh = () => {
    for (const one of lines) one.refresh();
  };
  model.listen((what) => {
    if (what === "settled") sort();
    else refresh();
  });
  sort();
  return h(
    "section",
    { class: "card set-list", "aria-label": "Information sets" },
    h("div", { class: "row" }, h("h2", { class: "grow" }, `${tree.I.toLocaleString("en")} information sets`), search),
    h("div", { class: "scroll" }, h(
      "table",
      {},
      h("caption", {}, "Sorted by reach times regret: where a player loses most."),
      h("thead", {}, h("tr", {}, head)),
      body,
    )),
    rest,
  );
}

/** Rounding does not decide an order. */
function near(value) {
  return Math.round(value * 1e9);
}

function line(model, set) {
  const player = model.tree.setPlayer[set];
  const [reach, loss] = [h("td", { class: "number" }), h("td", { class: "number" })];
  const look = h("button", { class: "link", onclick: () => model.select(set) }, model.words(set));
  const element = h(
    "tr",
    {},
    h("td", {}, badge(player), " ", model.tree.players[player]),
    h("td", {}, look),
    reach,
    loss,
  );
  const refresh = () => {
    reach.textContent = `${number(100 * model.reachOf(set).all, 3)} %`;
    const lost = model.lossAt(set);
    loss.textContent = number(lost < 1e-12 ? 0 : lost);
    element.classList.toggle("selected", set === model.selected);
  };
  return { element, refresh };
}
