// What a game tells beside its board: who sits where, hints, the result, the scores.

import { get, savedPage } from "marl/api.js";
import { h, put, say } from "marl/dom.js";
import { number, percent, short } from "marl/format.js";
import { optionName } from "marl/parts/play_moves.js";
import { address } from "marl/routes.js";

/** One sentence: whose turn it is, or how it ended. */
export function statusOf(shown) {
  if (shown.ended) return shown.ended;
  if (shown.over) return `${verdict(shown)} ${returnsText(shown)}`;
  const asked = shown.mine.filter((agent) => shown.views[agent].asked && shown.views[agent].chosen === null);
  if (asked.length) return shown.mine.length > 1 ? `Your move, for ${asked[0]}.` : "Your move.";
  const awaited = shown.seats.filter((seat) => seat.asked);
  if (!awaited.length) return "The others play.";
  const names = awaited.map((seat) => `${seat.who} (${seat.agent}${seat.here ? "" : ", not here yet"})`);
  return `Waiting for ${names.join(" and ")}.`;
}

function verdict(shown) {
  const { returns, cut } = shown.revealed;
  const all = Object.values(returns);
  if (cut) return "The game was cut off, because it did not end.";
  const spread = Math.max(...all) - Math.min(...all);
  if (shown.mine.length !== 1 || all.length < 2) return "The game is over.";
  if (spread < 1e-6) return shown.scores.competitive ? "A draw." : "The game is over.";
  const mine = returns[shown.mine[0]] ?? 0;
  const best = Math.max(...all) - mine < 1e-6;
  if (best) return all.filter((one) => Math.max(...all) - one < 1e-6).length > 1 ? "Shared first place." : "You won.";
  return "You lost.";
}

function returnsText(shown) {
  const { returns } = shown.revealed;
  return Object.entries(returns).map(([agent, paid]) => `${agent} ${number(paid)}`).join(", ");
}

/** Who sits where, with a mark at those who are asked. */
export function seatList(shown) {
  return h("ul", { class: "play-who", "aria-label": "Seats" }, shown.seats.map((seat) => h("li",
    { class: seat.asked && !shown.over && !shown.ended ? "asked" : null },
    h("span", { class: "play-agent" }, seat.agent), h("span", {}, seat.who),
    seat.person && seat.who !== "you" ? h("span", { class: `chip ${seat.here ? "met" : ""}` }, seat.here ? "here" : "not here") : null)));
}

/** Links for those who are invited; only whoever opened the game gets them. */
export async function invitations(shown, signal) {
  if (shown.guest || savedPage() !== null || !shown.seats.some((seat) => seat.who.startsWith("guest "))) return null;
  const secrets = await get(`/api/play/games/${shown.game}/invitations`, { signal, keep: false });
  const lines = Object.entries(secrets).map(([guest, secret]) => {
    const link = `${location.origin}/#token=${secret}/play/${encodeURIComponent(shown.game)}`;
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
    return h("div", { class: "play-field" }, h("label", { for: input.id }, `Invitation for ${guest}`),
      h("div", { class: "play-link" }, input, h("button", { type: "button", class: "small", onclick: copy }, "Copy")));
  });
  return h("section", { class: "card play-invite" }, h("h2", {}, "Invite"), lines,
    h("p", { class: "quiet" }, "A link opens this game and nothing else. Others on this machine or network can use it while marl watch runs."));
}

/** What the policy would do and why. */
export function hintBox(hint, columns) {
  const [choice] = columns;
  const named = hint.action_name ?? (choice.type === "choice" && columns.length === 1
    ? optionName(choice, hint.action[0]) : hint.action.map((one) => number(one, 3)).join(", "));
  const lines = [h("p", {}, h("strong", {}, hint.policy), hint.member === null ? "" : ` (member ${hint.member})`, " would play ",
    h("strong", {}, named), hint.value === null ? "." : `, and expects a return of ${number(hint.value, 3)} from here.`)];
  if (hint.probabilities !== null || hint.q_values !== null) lines.push(optionTable(hint, columns));
  if (hint.mean !== null) {
    const spread = hint.std === null ? "" : ` ± ${hint.std.map((one) => number(one, 3)).join(", ")}`;
    lines.push(h("p", { class: "quiet" }, `Numbers: ${hint.mean.map((one) => number(one, 3)).join(", ")}${spread}`));
  }
  return h("section", { class: "card play-hint", "aria-label": "Hint" }, h("h2", {}, "Hint"), lines);
}

function optionTable(hint, columns) {
  const rows = [];
  columns.filter((one) => one.type === "choice").forEach((column, c) => {
    for (let i = 0; i < column.options; i++) {
      const chance = hint.probabilities?.[c]?.[i] ?? null;
      const value = hint.q_values?.[i] ?? null;
      rows.push({ name: optionName(column, i), chance, value, taken: hint.action[c] === i });
    }
  });
  rows.sort((a, b) => (b.chance ?? b.value) - (a.chance ?? a.value));
  const most = rows.filter((row) => row.chance !== 0 || row.taken).slice(0, 10);
  const head = h("tr", {}, h("th", { scope: "col" }, "Move"), hint.probabilities ? h("th", { scope: "col" }, "Chance") : null,
    hint.q_values ? h("th", { scope: "col", class: "number" }, "Q value") : null);
  return h("table", {}, h("caption", {}, "What the policy thinks of the moves"), h("thead", {}, head),
    h("tbody", {}, most.map((row) => h("tr", { class: row.taken ? "taken" : null }, h("td", {}, row.name),
      hint.probabilities ? h("td", { class: "play-chance" }, h("span", { class: "bar", style: { width: `${60 * (row.chance ?? 0)}%` } }),
        percent(row.chance)) : null,
      hint.q_values ? h("td", { class: "number" }, number(row.value, 3)) : null))));
}

/** The table of all games at this table. */
export function scoreTable({ rows, competitive }) {
  if (!rows.length) return null;
  const head = ["Seat", "Player", "Games", ...(competitive ? ["Won", "Drawn", "Lost"] : []), "Mean return"];
  return h("section", { class: "card" }, h("h2", {}, "Score"), h("div", { class: "scroll" }, h("table", {},
    h("caption", {}, "Games at this table, by seat and by who sat there"),
    h("thead", {}, h("tr", {}, head.map((name, i) => h("th", { scope: "col", class: i > 1 ? "number" : null }, name)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, h("td", {}, row.agent), h("td", {}, row.who),
      [row.games, ...(competitive ? [row.wins, row.draws, row.losses] : [])].map((n) => h("td", { class: "number" }, n)),
      h("td", { class: "number" }, number(row.mean))))))));
}

/** What may be known when the game is over: all moves, the recording, where to look at it. */
export function revealedBox(shown) {
  const { history, recording, not_kept: notKept, seed } = shown.revealed;
  const { hints, undos } = shown.used;
  const moves = history.map((one) => h("li", {}, h("span", { class: "play-agent" }, one.agent), ` ${one.name ?? short(one.action)}`));
  const help = [hints ? `${hints} hint${hints > 1 ? "s" : ""}` : "", undos ? `${undos} move${undos > 1 ? "s" : ""} taken back` : ""];
  const helped = help.filter(Boolean).join(", ");
  const episode = shown.title.run && recording
    ? h("a", { href: address("episodes", [], { run: shown.title.run, recording, episode: 0, seed, checkpoint: shown.title.checkpoint }) },
      "Look at it step by step") : null;
  return h("section", { class: "card" }, h("h2", {}, "The whole game"),
    helped ? h("p", {}, `With ${helped}.`) : null,
    notKept ? h("p", { class: "message warning" }, notKept) : null,
    recording ? h("p", { class: "quiet" }, "Saved as a recording: ", h("code", {}, recording), ". ", episode) : null,
    h("details", {}, h("summary", {}, `All ${history.length} moves`), h("ol", { class: "play-history" }, moves)));
}

/** The numbers that this seat sees, for envs that draw little. */
export function observationBox(view, open) {
  const place = h("pre", { class: "play-numbers" });
  const element = h("details", { open }, h("summary", {}, "What this seat sees"), place);
  const update = ({ observation }) => put(place, observation === null ? "Nothing: it is not asked now." : rounded(observation));
  update(view);
  return { element, update };
}

function rounded(value) {
  const text = JSON.stringify(value, (_, one) => (typeof one === "number" ? Number(one.toPrecision(4)) : one));
  return text.length > 4000 ? `${text.slice(0, 4000)} …` : text;
}
