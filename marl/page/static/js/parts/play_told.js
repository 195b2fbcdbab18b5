// What a game tells beside its board: who sits where, hints, the result, the scores.

import { get, savedPage } from "marl/api.js";
import { h, put, say } from "marl/dom.js";
import { number, percent, short } from "marl/format.js";
import { optionName } from "marl/parts/play_names.js";
import { address } from "marl/routes.js";

const EVEN = 1e-6; // returns that differ by less are equal
const MOST_RETURNS = 4; // in the sentence about the end
const MOST_ROWS = 10; // of the table of a hint

/** One sentence: whose turn it is, or how it ended. */
export function statusOf(shown) {
  if (shown.ended) return shown.ended;
  if (shown.over) return `${verdict(shown)}: ${returnsText(shown)}`;
  const asked = shown.mine.filter((agent) => shown.views[agent].asked && shown.views[agent].chosen === null);
  if (asked.length) return shown.mine.length > 1 ? `Your move, for ${asked[0]}` : "Your move";
  const awaited = shown.seats.filter((seat) => seat.asked);
  if (!awaited.length) return "The others play";
  const names = awaited.map((seat) => `${seat.who} (${seat.agent}${seat.here ? "" : ", not here yet"})`);
  return `Waiting for ${names.join(" and ")}`;
}

function verdict(shown) {
  const { returns, cut } = shown.revealed;
  const all = Object.values(returns);
  if (cut) return "The game was cut off, because it did not end";
  if (shown.mine.length !== 1 || all.length < 2 || !shown.scores.competitive) return "The game is over";
  const best = Math.max(...all);
  const mine = returns[shown.mine[0]] ?? 0;
  if (best - mine > EVEN) return "You lost";
  return all.filter((one) => best - one < EVEN).length > 1 ? "A draw" : "You won";
}

function returnsText(shown) {
  const { returns } = shown.revealed;
  const told = shown.seats.filter((seat) => seat.agent in returns);
  const own = told.length > MOST_RETURNS ? told.filter((seat) => shown.mine.includes(seat.agent)) : told;
  if (!own.length) return "nobody at this table took part in it";
  return own.map((seat) => `${seat.agent} ${number(returns[seat.agent])}`).join(", ");
}

/** Who sits where, with a mark at those who are asked. */
export function seatList(shown) {
  const goesOn = !shown.over && !shown.ended;
  const rows = shown.seats.map((seat) => {
    const presence = h("span", { class: `chip ${seat.here ? "met" : ""}` }, seat.here ? "here" : "not here");
    return h("li", { class: seat.asked && goesOn ? "asked" : null },
      h("span", { class: "play-agent" }, seat.agent),
      h("span", {}, seat.who),
      seat.person && seat.who !== "you" ? presence : null);
  });
  return h("ul", { class: "play-who", "aria-label": "Seats" }, rows);
}

/** Links for those who are invited; only whoever opened the game gets them. */
export async function invitations(shown, signal) {
  const guests = shown.seats.some((seat) => seat.who.startsWith("guest "));
  if (shown.guest || savedPage() !== null || !guests) return null;
  // Apart from the game, which may be saved as a file and given away.
  const secrets = await get(`/api/play/games/${shown.game}/invitations`, { signal, keep: false });
  const links = Object.entries(secrets).map(([guest, secret]) => invitation(guest, secret, shown.game));
  const note = "A link opens this game and nothing else, for whoever can reach this address, while marl watch runs.";
  return h("section", { class: "card play-invite" }, h("h2", {}, "Invite"), links, h("p", { class: "quiet" }, note));
}

function invitation(guest, secret, game) {
  const link = `${location.origin}/#token=${secret}/play/${encodeURIComponent(game)}`;
  const input = h("input", { readonly: true, value: link, id: `link-${guest}`, onfocus: () => input.select() });
  const copy = async () => {
    input.select();
    try {
      await navigator.clipboard.writeText(link);
      say(`The invitation for ${guest} is copied: open it in another browser.`);
    } catch {
      say("Copy the marked link by hand: this browser does not let the page do it.");
    }
  };
  const button = h("button", { type: "button", class: "small", onclick: copy }, "Copy");
  const label = h("label", { for: input.id }, `Invitation for ${guest}`);
  return h("div", { class: "play-field" }, label, h("div", { class: "play-link" }, input, button));
}

// -- hints ------------------------------------------------------------------------------------------------------------

/** What the policy would do and why. */
export function hintBox(hint, columns, places) {
  const numbers = (list) => list.map((one) => number(one, 3)).join(", ");
  const single = columns.length === 1 && columns[0].type === "choice";
  const named = single ? optionName(columns[0], hint.action[0], places) : numbers(hint.action);
  const who = hint.member === null ? "" : ` (member ${hint.member})`;
  const value = hint.value === null ? "." : `, and expects a return of ${number(hint.value, 3)} from here.`;
  const lines = [h("p", {}, h("strong", {}, hint.policy), who, " would play ", h("strong", {}, named), value)];
  if (hint.probabilities !== null || hint.q_values !== null) lines.push(optionTable(hint, columns, places));
  if (hint.mean !== null) {
    const spread = hint.std === null ? "" : ` ± ${numbers(hint.std)}`;
    lines.push(h("p", { class: "quiet" }, `Best guess: ${numbers(hint.mean)}${spread}`));
  }
  return h("section", { class: "card play-hint", "aria-label": "Hint" }, h("h2", {}, "Hint"), lines);
}

function optionTable(hint, columns, places) {
  const withChances = hint.probabilities !== null;
  const withValues = hint.q_values !== null;
  const head = h("tr", {},
    h("th", { scope: "col" }, "Move"),
    withChances ? h("th", { scope: "col" }, "Chance") : null,
    withValues ? h("th", { scope: "col", class: "number" }, "Q value") : null);
  const rows = optionRows(hint, columns, places).map((row) => h("tr", { class: row.taken ? "taken" : null },
    h("td", {}, row.name),
    withChances ? chanceCell(row.chance ?? 0) : null,
    withValues ? h("td", { class: "number" }, number(row.value, 3)) : null));
  const caption = h("caption", {}, "What the policy thinks of the moves");
  return h("table", {}, caption, h("thead", {}, head), h("tbody", {}, rows));
}

function optionRows(hint, columns, places) {
  const rows = [];
  columns.filter((one) => one.type === "choice").forEach((column, c) => {
    for (let i = 0; i < column.options; i++) {
      const chance = hint.probabilities?.[c]?.[i] ?? null;
      const value = hint.q_values?.[i] ?? null;
      rows.push({ name: optionName(column, i, places), chance, value, taken: hint.action[c] === i });
    }
  });
  rows.sort((a, b) => (b.chance ?? b.value) - (a.chance ?? a.value));
  return rows.filter((row) => row.chance === null || row.chance > 0 || row.taken).slice(0, MOST_ROWS);
}

function chanceCell(chance) {
  const bar = h("span", { class: "bar", style: { width: `${55 * chance}%` } });
  return h("td", { class: "play-chance" }, bar, percent(chance));
}

// -- results ----------------------------------------------------------------------------------------------------------

/** The table of all games at this table. */
export function scoreTable({ rows, competitive }) {
  if (!rows.length) return null;
  const counts = competitive ? ["Won", "Drawn", "Lost"] : [];
  const names = ["Seat", "Games", ...counts, "Mean"];
  const head = h("tr", {}, names.map((name, i) => h("th", { scope: "col", class: i ? "number" : null }, name)));
  const body = rows.map((row) => h("tr", {},
    h("th", { scope: "row" }, row.agent, h("span", { class: "quiet play-player" }, row.who)),
    [row.games, ...(competitive ? [row.wins, row.draws, row.losses] : [])].map((n) => h("td", { class: "number" }, n)),
    h("td", { class: "number" }, number(row.mean))));
  const caption = h("caption", {}, "Games at this table; the mean is that of the return");
  const table = h("table", { class: "play-score" }, caption, h("thead", {}, head), h("tbody", {}, body));
  return h("section", { class: "card" }, h("h2", {}, "Score"), h("div", { class: "scroll" }, table));
}

/** What may be known when the game is over: all moves, the recording, where to look at it. */
export function revealedBox(shown, places) {
  const { history, recording, not_kept: notKept } = shown.revealed;
  const moves = history.map((one) => {
    const place = typeof one.action === "number" ? places[one.action] : undefined;
    return h("li", {}, h("span", { class: "play-agent" }, one.agent), ` ${one.name ?? place ?? short(one.action)}`);
  });
  return h("section", { class: "card" }, h("h2", {}, "The whole game"),
    h("p", {}, helpText(shown.used)),
    notKept ? h("p", { class: "message warning" }, notKept) : null,
    recording ? h("p", { class: "quiet" }, "Recorded: ", h("code", {}, recording), ". ", episodeLink(shown)) : null,
    h("details", {}, h("summary", {}, `All ${history.length} moves`), h("ol", { class: "play-history" }, moves)));
}

function helpText({ hints, undos }) {
  const parts = [];
  if (hints) parts.push(hints > 1 ? `${hints} hints` : "1 hint");
  if (undos) parts.push(undos > 1 ? `${undos} moves taken back` : "1 move taken back");
  return parts.length ? `With ${parts.join(" and ")}.` : "Without hints, and no move was taken back.";
}

function episodeLink({ title, revealed }) {
  if (!title.run) return null;
  const { recording, seed } = revealed;
  const query = { run: title.run, checkpoint: title.checkpoint, recording, episode: 0, seed };
  return h("a", { href: address("episodes", [], query) }, "Look at it step by step");
}

/** The numbers that this seat sees, for envs that draw little. */
export function observationBox(view, open) {
  const place = h("pre", { class: "play-numbers" });
  const element = h("details", { open, class: "card" }, h("summary", {}, "What this seat sees"), place);
  const update = ({ observation }) => {
    put(place, observation === null ? "Nothing: it is not asked now." : rounded(observation));
  };
  update(view);
  return { element, update };
}

function rounded(value) {
  const text = JSON.stringify(value, (_, one) => (typeof one === "number" ? Number(one.toPrecision(4)) : one));
  return text.length > 4000 ? `${text.slice(0, 4000)} …` : text;
}
