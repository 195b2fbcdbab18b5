// The games of the results folder, to choose one.

import { h } from "marl/dom.js";
import { address } from "marl/routes.js";

const KINDS = {
  population: ["Populations", "Runs whose learners train against snapshots of each other: payoffs by rounds, lineage."],
  report: ["Reports", "What marl report wrote: everybody against everybody, with rankings."],
  crossplay: ["Cross-plays", "Payoff tables that marl crossplay kept."],
  run: ["Runs that measured NashConv", "How far from an equilibrium a run was while it trained."],
};

/** Lists by kind, the newest first; where there is nothing, how to get something. */
export function gamesList(games) {
  if (games.length === 0) return nothing();
  return Object.entries(KINDS).map(([kind, [title, meaning]]) => {
    const own = games.filter((game) => game.kind === kind);
    if (own.length === 0) return null;
    const items = own.map((game) => h("tr", {},
      h("td", {}, h("a", { href: address("games", [kind, game.path]) }, game.title)),
      h("td", { class: "number quiet" }, new Date(1000 * game.changed).toLocaleString()),
    ));
    const titles = [h("th", { scope: "col" }, "Folder"), h("th", { scope: "col", class: "number" }, "Changed")];
    const head = h("thead", {}, h("tr", {}, titles));
    const table = h("table", {}, h("caption", {}, meaning), head, h("tbody", {}, items));
    return h("section", { class: `games-of-${kind}` }, h("h2", {}, title), h("div", { class: "scroll" }, table));
  });
}

function nothing() {
  return h("div", { class: "card" },
    h("p", {}, "There is no payoff table in the results folder yet. Any of these makes one:"),
    h("pre", { class: "scroll" }, [
      "marl run rps_psro                        # a population",
      "marl report kuhn_poker RUN --out DIR     # a report, DIR in the results folder",
      "marl crossplay RUN RUN random --out DIR  # a cross-play",
    ].join("\n")),
  );
}
