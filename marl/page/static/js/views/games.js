// The view "games": payoff tables of populations, reports and cross-plays, who is better than whom, and how surely.

import { get, job, savedPage } from "marl/api.js";
import { h, put } from "marl/dom.js";
import { number } from "marl/format.js";
import { boundsPlot } from "marl/parts/bounds.js";
import { lineageChart } from "marl/parts/graph_lineage.js";
import { responseGraph } from "marl/parts/graph.js";
import { gamesList } from "marl/parts/games_list.js";
import { graphMeaning, heatMeaning, metaMeaning } from "marl/parts/games_words.js";
import { heatMap } from "marl/parts/heat.js";
import { subTable } from "marl/parts/heat_table.js";
import { nashConvChart } from "marl/parts/nash_conv.js";
import { rankPlot, shareBars } from "marl/parts/ranks.js";
import { address, setQuery } from "marl/routes.js";

const WIDE = 7; // columns from which on a payoff table gets the whole width

export async function show({ root, parts, query, signal, setTitle, whenShown }) {
  if (parts.length < 2) {
    setTitle("Games");
    const { games } = await get("/api/games", { signal });
    put(root, h("h1", {}, "Games"), gamesList(games));
    return;
  }
  const [kind, path] = parts;
  setTitle(path);
  const game = await get(`/api/games/one?${new URLSearchParams({ path, kind })}`, { signal });
  const view = { kind, path, game, signal, ranks: [], seats: null, round: null, asking: null };
  put(root, heading(view), sections(view));
  whenShown();
  if (game.rounds.length && game.payoffs) chooseRound(view, wantedRound(view, query));
  else if (game.payoffs) ask(view, game.payoffs, null);
  else if (game.rounds.length) chooseRound(view, wantedRound(view, query));
  if (game.payoffs) findSeats(view);
}

function heading({ game, path }) {
  const kinds = { population: `Population (${game.population})`, report: "Report", crossplay: "Cross-play", run: "Run" };
  const told = kinds[game.kind];
  return [
    savedPage() === null ? h("p", {}, h("a", { href: address("games") }, "All games")) : null,
    h("h1", {}, game.heading ?? path),
    h("p", { class: "quiet" }, `${told}. ${game.about ?? ""}`),
  ];
}

function section(title, ...content) {
  return h("section", { class: "card" }, h("h2", {}, title), content);
}

/** The places of everything, in the order of reading; what comes later is put into them. */
function sections(view) {
  const { game } = view;
  view.graph = h("div", {}, h("p", { class: "quiet" }, "Being computed …"));
  view.rankings = h("div", { class: "columns ranks" });
  view.meta = h("div", {});
  const found = [];
  if (game.rounds.length) found.push(slider(view));
  const isWide = game.payoffs && game.payoffs.names.at(-1).length > WIDE;
  const side = [];
  if (game.payoffs) (isWide ? found : side).push(payoffSection(view));
  if (game.payoffs) side.push(section("Better replies", view.graph, h("p", { class: "meaning" }, graphMeaning())));
  if (game.rounds.length) side.push(section("Meta-strategy", view.meta, h("p", { class: "meaning" }, metaMeaning())));
  const chart = nashConvChart({ measured: game.nash_conv, rounds: game.rounds, signal: view.signal });
  if (chart) side.push(section("NashConv over time", chart));
  if (game.bounds.length) side.push(section("NashConv of each entrant", boundsPlot(game.bounds)));
  found.push(h("div", { class: "games-columns" }, side));
  if (game.payoffs) found.push(section("Rankings", view.rankings));
  if (game.lineage?.nodes.length) found.push(lineageSection(view));
  const nothing = "Nothing has been measured yet: exploitability.interval says after how many iterations.";
  if (game.kind === "run" && !chart) found.push(h("p", {}, nothing));
  return found;
}

function payoffSection(view) {
  view.heat = heatMap({ payoffs: view.game.payoffs, name: "payoffs" });
  return section("Payoffs", view.heat.element, h("p", { class: "meaning" }, heatMeaning(view.game.payoffs)));
}

function lineageSection(view) {
  view.lineage = lineageChart({ lineage: view.game.lineage, round: Infinity });
  return section("Lineage", view.lineage.element);
}

// -- rounds of a population -------------------------------------------------------------------------------------------

function wantedRound({ game }, query) {
  const asked = Number(query.get("round") ?? NaN);
  const known = game.rounds.map((round) => round.round);
  return known.includes(asked) ? asked : known.at(-1);
}

function slider(view) {
  const { rounds } = view.game;
  const choose = (event) => chooseRound(view, rounds[Number(event.target.value)].round);
  view.range = h("input", { type: "range", id: "round", min: 0, max: rounds.length - 1, step: 1, oninput: choose });
  view.roundWords = h("output", { for: "round" });
  return h("div", { class: "card round" }, h("label", { for: "round" }, "Round"), view.range, view.roundWords);
}

/** Show everything as it was at the end of a round. */
function chooseRound(view, round) {
  const { game } = view;
  const told = game.rounds.find((one) => one.round === round);
  view.round = round;
  view.range.value = game.rounds.indexOf(told);
  const members = Object.entries(told.members ?? {}).map(([side, count]) => `${number(count)} of ${side}`).join(", ");
  const last = game.rounds.at(-1);
  put(view.roundWords, `${round} of ${last.round}, after ${number(told.steps)} env steps. Members: ${members}.`);
  view.range.setAttribute("aria-valuetext", view.roundWords.textContent);
  setQuery({ round: told === last ? null : round });
  view.lineage?.update(round);
  put(view.meta, metaStrategy(view, told));
  if (!game.payoffs) return;
  const payoffs = subTable(game.payoffs, membersAt(view, round));
  view.heat.update({ payoffs, ranks: [] });
  ask(view, payoffs, round);
}

function membersAt({ game }, round) {
  const joined = new Map(game.lineage.nodes.map((node) => [node.id, node.round]));
  const wasThere = (name) => (joined.get(name) ?? 0) <= round;
  return game.payoffs.names.map((names) => names.map((_, i) => i).filter((i) => wasThere(names[i])));
}

function metaStrategy({ game }, told) {
  const mixtures = Object.entries(told.meta_strategy ?? {});
  const isOne = mixtures.length > 1 && mixtures.every(([, mixture]) => String(mixture) === String(mixtures[0][1]));
  const sides = [...new Set(game.lineage.nodes.map((node) => node.side))];
  return (isOne ? mixtures.slice(0, 1) : mixtures).map(([player, mixture]) => {
    const side = sides.includes(player) ? player : sides[0];
    const rows = mixture.map((share, i) => ({ name: `${side}_${i}`, share }));
    const played = rows.filter((row) => row.share > 0).map((row) => row.name);
    const words = `Meta-strategy of ${player}: ${played.join(", ")}`;
    return [h("h3", {}, isOne ? "all players" : player), shareBars(rows, { words, name: `meta_strategy_${player}` })];
  });
}

// -- what is computed -------------------------------------------------------------------------------------------------

/** The response graph, then one ranking after the other, the quick ones first. */
async function ask(view, payoffs, round) {
  view.asking?.abort();
  const asking = (view.asking = new AbortController());
  const signal = AbortSignal.any([view.signal, asking.signal]);
  view.ranks = [];
  put(view.rankings, h("p", { class: "quiet" }, "Being computed …"));
  view.graph.classList.add("waiting");
  const wanted = (part) => job("/api/games/ranks", { path: view.path, kind: view.kind, part, round }, { signal });
  try {
    await still(signal);
    const found = await wanted("graph");
    view.graph.classList.remove("waiting");
    put(view.graph, responseGraph({ graph: found.graph, names: payoffs.names }).element);
    view.heat.update({ zeroSum: found.zero_sum });
    for (const method of quickFirst(found.methods)) addRanking(view, await wanted(method), found);
  } catch (error) {
    if (!signal.aborted) tellTrouble(view, error);
  }
}

/** A moment without another wish: a slider that is being moved asks for nothing. */
function still(signal) {
  if (savedPage() !== null) return Promise.resolve();
  return new Promise((resolve, reject) => {
    setTimeout(resolve, 250);
    signal.addEventListener("abort", () => reject(new DOMException("left", "AbortError")));
  });
}

function quickFirst(methods) {
  return [...methods].sort((a, b) => (a === "nash_average") - (b === "nash_average"));
}

function addRanking(view, ranking, { methods, players }) {
  view.ranks.push(ranking);
  const left = methods.length - view.ranks.length;
  const wait = left ? h("p", { class: "quiet" }, `${left} more being computed …`) : null;
  put(view.rankings, view.ranks.map((one) => rankPlot(one, players)), wait);
  view.heat.update({ ranks: view.ranks });
}

function tellTrouble(view, error) {
  const isOld = error.code === "saved";
  const missing = "This saved page holds what was computed when it was saved; this round was not looked at then.";
  const words = isOld ? missing : error.message;
  view.graph.classList.remove("waiting");
  if (view.ranks.length === 0) put(view.graph, h("p", { class: isOld ? "quiet" : "message error" }, words));
  put(view.rankings, view.ranks.map((one) => rankPlot(one)), h("p", { class: "quiet" }, words));
}

// -- matches ----------------------------------------------------------------------------------------------------------

/** Cells become links as soon as it is known whose policies sit where; in a saved file there is nobody to play. */
async function findSeats(view) {
  if (savedPage() !== null) return;
  try {
    const wanted = { path: view.path, kind: view.kind };
    const seats = await job("/api/games/seats", wanted, { signal: view.signal, keep: false });
    if (seats.run === null) view.heat.element.append(h("p", { class: "quiet" }, seats.why));
    else view.heat.update({ linkOf: (cell) => matchAddress(view, seats, cell) });
  } catch (error) {
    if (view.signal.aborted) return;
    view.heat.element.append(h("p", { class: "quiet" }, `Matches cannot be shown: ${error.message}`));
  }
}

/** The address at which the match of a cell is played; null where one of its policies is not there. */
function matchAddress(view, { run, checkpoint, sources, explore }, cell) {
  const { payoffs } = view.game;
  const policies = {};
  for (const [player, i] of cell.entries()) {
    const own = sources[payoffs.players[player]]?.[namesNow(view)[player][i]];
    if (!own) return null;
    Object.assign(policies, own);
  }
  return address("episodes", [], { run, checkpoint, explore: explore ? 1 : null, policies: JSON.stringify(policies) });
}

function namesNow(view) {
  const { payoffs } = view.game;
  if (view.round === null) return payoffs.names;
  return membersAt(view, view.round).map((places, player) => places.map((i) => payoffs.names[player][i]));
}
