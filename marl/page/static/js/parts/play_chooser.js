// Choosing what to play, who sits where, and how.

import { get, post, savedPage } from "marl/api.js";
import { h, put, say } from "marl/dom.js";
import { percent } from "marl/format.js";
import { gameName } from "marl/parts/play_names.js";
import { address, setQuery } from "marl/routes.js";

const OTHER = "another env";

/** The page on which a game is set up. */
export async function chooser({ root, query, signal, setTitle }) {
  setTitle("Play");
  const known = await get("/api/play/choices", { signal });
  const state = { known, game: firstGame(known, query), looked: null, seats: {}, asked: 0 };
  const parts = { what: h("div"), seats: h("div", { "aria-live": "polite" }), open: h("section") };
  const lead = "Take a seat against trained policies, against scripts, or with somebody on another browser.";
  const what = h("section", { class: "card" }, h("h2", {}, "The game"), parts.what);
  root.append(
    h("h1", {}, "Play"),
    h("p", { class: "quiet" }, lead),
    h("div", { class: "play-setup" }, what, parts.seats),
    parts.open,
  );
  showWhat(state, parts, signal);
  if (savedPage() === null) await showOpen(parts.open, signal);
  look(state, parts, signal);
}

function firstGame(known, query) {
  const run = query.get("run") ?? known.runs[0]?.run ?? null;
  if (query.get("env")) return { env: query.get("env"), env_config: configOf(query.get("env_config")) };
  if (run !== null) return { run, checkpoint: query.get("checkpoint") };
  return { env: "kuhn_poker" };
}

function configOf(text) {
  if (!text) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`env_config is no JSON: ${text}`);
  }
}

// -- what is played ---------------------------------------------------------------------------------------------------

function showWhat(state, parts, signal) {
  const { known, game } = state;
  const runs = known.runs.map((one) => option(`run ${one.run}`, runName(one), game.run === one.run));
  const envs = known.envs.map((env) => option(`env ${env}`, env, game.env === env));
  const isOther = game.env !== undefined && !known.envs.includes(game.env);
  const pick = h("select", { id: "play-game", onchange: () => chosen(pick.value) },
    runs.length ? h("optgroup", { label: "Trained runs" }, runs) : null,
    h("optgroup", { label: "Envs without a run" }, envs, option(OTHER, "Another env …", isOther)),
  );
  const change = (next) => {
    state.game = next;
    state.seats = {};
    setQuery({ run: next.run, env: next.env, checkpoint: next.checkpoint,
      env_config: next.env_config && JSON.stringify(next.env_config) });
    showWhat(state, parts, signal);
    look(state, parts, signal);
  };
  function chosen(value) {
    if (value === OTHER) change({ env: "" });
    else if (value.startsWith("run ")) change({ run: value.slice(4) });
    else change({ env: value.slice(4) });
  }
  const run = known.runs.find((one) => one.run === game.run);
  put(parts.what,
    field("Game", pick),
    run ? field("Checkpoint", checkpoints(run, game, change)) : null,
    isOther ? field("Name of the env", typed("play-env", game.env, (env) => change({ ...game, env }))) : null,
    game.env !== undefined ? field("Its keys (env_config, JSON)", typed("play-config", configText(game), (text) => {
      try {
        change({ ...game, env_config: configOf(text) });
      } catch (error) {
        say(error.message, "error");
      }
    }, "{}")) : null,
  );
}

function configText(game) {
  return game.env_config ? JSON.stringify(game.env_config) : "";
}

function runName({ run, env, algo }) {
  return [run, algo, env].filter(Boolean).join(" · ");
}

function checkpoints(run, game, change) {
  const names = [...run.checkpoints].reverse();
  const pick = h("select", { id: "play-checkpoint" },
    option("", "the newest", !game.checkpoint),
    names.map((name) => option(name, name, name === game.checkpoint)));
  pick.addEventListener("change", () => change({ ...game, checkpoint: pick.value || null }));
  return pick;
}

function typed(id, value, change, placeholder = "") {
  const input = h("input", { id, value, placeholder, spellcheck: "false", autocomplete: "off" });
  input.addEventListener("change", () => change(input.value.trim()));
  return input;
}

function option(value, text, selected) {
  return h("option", { value, selected }, text);
}

function field(label, control) {
  return h("div", { class: "play-field" }, h("label", { for: control.id }, label), control);
}

// -- who sits where ---------------------------------------------------------------------------------------------------

async function look(state, parts, signal) {
  const mine = ++state.asked;
  if (state.game.env === "") {
    put(parts.seats);
    return;
  }
  put(parts.seats, h("section", { class: "card" }, h("p", { class: "quiet" }, "Looking at the seats …")));
  try {
    const found = await post("/api/play/look", asked(state.game), { signal });
    if (mine !== state.asked) return; // something else was chosen meanwhile
    state.looked = found;
    showSeats(state, parts.seats, signal);
  } catch (error) {
    if (signal.aborted || mine !== state.asked) return;
    put(parts.seats, h("p", { class: "message error", role: "alert" }, error.message));
  }
}

function asked({ run, env, checkpoint, env_config }) {
  return run ? { run, checkpoint: checkpoint ?? null } : { env, env_config: env_config ?? {} };
}

function showSeats(state, place, signal) {
  const { seats } = state.looked;
  const turns = seats.some((seat) => !seat.begins) && seats.some((seat) => seat.begins);
  const free = seats.find((seat) => !seat.trouble && seat.begins) ?? seats.find((seat) => !seat.trouble);
  for (const seat of seats) {
    state.seats[seat.agent] ??= seat === free ? "human" : state.looked.alone ? "random" : "policy";
  }
  const picks = new Map();
  const rows = seats.map((seat) => {
    const id = `seat-${seat.agent}`;
    const pick = h("select", { id, onchange: () => (state.seats[seat.agent] = pick.value) }, whoMay(state, seat));
    picks.set(seat.agent, pick);
    return h("li", {},
      h("label", { for: id }, seat.agent, turns && seat.begins ? h("span", { class: "chip" }, "begins") : null),
      pick, seat.trouble ? h("p", { class: "quiet" }, seat.trouble) : null);
  });
  const settings = setting(state);
  const start = h("button", { class: "primary", id: "play-start", type: "submit" }, "Start the game");
  const form = h("form", { class: "card" },
    h("div", { class: "row" }, h("h2", {}, "The seats"), swapButton(state, seats, place, signal)),
    h("ul", { class: "play-seats" }, rows), settings.element, start);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    start.disabled = true;
    start.textContent = "Setting up the table …";
    try {
      const wanted = { ...asked(state.game), seats: { ...state.seats }, ...settings.read() };
      const { game } = await post("/api/play/games", wanted, { signal });
      location.hash = address("play", [game]);
    } catch (error) {
      if (!signal.aborted) say(error.message, "error");
      start.disabled = false;
      start.textContent = "Start the game";
    }
  });
  put(place, form);
}

function swapButton(state, seats, place, signal) {
  if (seats.length < 2) return null;
  const swap = () => {
    const words = seats.map((seat) => state.seats[seat.agent]);
    seats.forEach((seat, i) => (state.seats[seat.agent] = words.at(i - 1)));
    showSeats(state, place, signal);
    place.querySelector("#play-swap").focus();
  };
  return h("button", { type: "button", class: "small", id: "play-swap", onclick: swap }, "Swap seats");
}

/** Options for one seat: people, the run's policy, members of populations, scripts, and other runs of the same env. */
function whoMay(state, seat) {
  const { looked, known, game } = state;
  const now = state.seats[seat.agent];
  const make = (value, text) => option(value, text, value === now);
  const people = seat.trouble ? [] : [make("human", "You"), make("guest", "Somebody with an invitation")];
  const own = looked.alone ? [] : [make("policy", `The run's policy (${seat.policy})`)];
  const scripts = [make("random", "Random moves"), make("first", "The first legal move")];
  const members = [];
  for (const [name, chances] of Object.entries(looked.populations)) {
    chances.forEach((chance, i) => {
      members.push(make(`member:${name}/${i}`, `${name}, member ${i} (${percent(chance)})`));
    });
  }
  const others = known.runs.filter((run) => run.env === looked.env && run.run !== game.run);
  return [
    people.length ? h("optgroup", { label: "People" }, people) : null,
    h("optgroup", { label: "Policies" }, own, scripts),
    members.length ? h("optgroup", { label: "Members of the population" }, members) : null,
    others.length ? h("optgroup", { label: "Other runs" }, others.map((run) => make(run.run, run.run))) : null,
  ];
}

function setting(state) {
  const explore = h("input", { type: "checkbox", id: "play-explore" });
  const picture = h("input", { type: "checkbox", id: "play-picture" });
  const seed = h("input", { type: "number", id: "play-seed", min: "0", placeholder: "drawn" });
  const several = state.looked.seats.length > 1;
  const element = h("details", { class: "play-settings" }, h("summary", {}, "Settings"),
    ticked(explore, "Policies draw their moves instead of taking the best one"),
    several ? ticked(picture, "Show the env's own picture, also if it shows what a seat should not see") : null,
    h("p", {}, h("label", { for: "play-seed" }, "Seed of the first game "), seed));
  const read = () => ({
    explore: explore.checked,
    open_picture: picture.checked,
    seed: seed.value === "" ? null : Number(seed.value),
  });
  return { element, read };
}

function ticked(box, text) {
  return h("p", {}, box, h("label", { for: box.id }, ` ${text}`));
}

// -- games that are open ----------------------------------------------------------------------------------------------

async function showOpen(place, signal) {
  const { games } = await get("/api/play/games", { signal, keep: false });
  if (!games.length) {
    put(place);
    return;
  }
  const rows = games.map((one) => h("li", {},
    h("a", { href: address("play", [one.game]) }, gameName(one.title)),
    h("span", { class: "quiet" }, one.title.run),
    h("span", { class: "chip" }, one.ended ? "ended" : one.over ? "over" : "under way"),
    h("button", { class: "small", "aria-label": `Close the game ${gameName(one.title)}`, onclick: async () => {
      await post(`/api/play/games/${one.game}`, {}, { method: "DELETE", signal });
      await showOpen(place, signal);
    } }, "Close")));
  put(place, h("h2", {}, "Open games"), h("ul", { class: "play-open" }, rows));
}
