// Which episode: a run, a checkpoint, its number and seed, who plays, and who else is asked; or a recorded one.

import { get } from "marl/api.js";
import { h, put, say } from "marl/dom.js";
import { address } from "marl/routes.js";

const NEWEST = "";
const OWN = "";
const UNKNOWN = "unknown"; // the seed of a recording that does not say it
const WAYS = [["", "greedy"], ["1", "exploring"]];
const MOST_AGENTS = 12; // that can be given away one by one

/** What an address asks for, as the server takes it; null where it names no run. */
export function requestOf(query) {
  const run = query.get("run");
  if (!run) return null;
  return {
    run,
    checkpoint: query.get("checkpoint") || null,
    episode: whole(query.get("episode")),
    seed: query.get("seed") === UNKNOWN ? null : whole(query.get("seed")),
    explore: query.get("explore") === "1",
    policies: policiesOf(query.get("policies")),
    other: query.get("other") || null,
    recording: query.get("recording") || null,
  };
}

function whole(text) {
  const value = Number(text ?? 0);
  return Number.isInteger(value) && value >= 0 ? value : 0;
}

function policiesOf(text) {
  if (!text) return {};
  try {
    const found = JSON.parse(text);
    return found !== null && typeof found === "object" && !Array.isArray(found) ? found : {};
  } catch {
    say("The address names policies in a form that is no JSON; they are left out.", "error");
    return {};
  }
}

/** The address of an episode; other words of the query (step, agent) by `more`. */
export function episodeAddress(request, more = {}) {
  const policies = Object.keys(request.policies).length > 0 ? JSON.stringify(request.policies) : null;
  return address("episodes", [], {
    run: request.run,
    checkpoint: request.checkpoint || null,
    recording: request.recording || null,
    episode: request.episode,
    seed: request.seed ?? UNKNOWN,
    explore: request.explore ? 1 : null,
    other: request.other || null,
    policies,
    ...more,
  });
}

/** The form; it goes to the address of the episode that was chosen. */
export async function episodeChooser(things, request, signal) {
  if (things.runs.length === 0) return nothingYet();
  const chosen = request ?? requestOf(new URLSearchParams({ run: things.runs[0].run }));
  const state = { things, request: { ...chosen, policies: { ...chosen.policies } }, signal };
  const form = h("form", { class: "episode-form" });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = episodeAddress(state.request);
  });
  await fill(form, state);
  return form;
}

function nothingYet() {
  return h(
    "p", { class: "message" }, "No run here has a checkpoint yet. Train something first: ",
    h("code", {}, "marl run two_step_game"), ", and keep checkpoints by ", h("code", {}, "--checkpoint-freq 10"), ".",
  );
}

async function fill(form, state) {
  const { request } = state;
  const change = (key, parse = (text) => text) => (event) => (request[key] = parse(event.target.value));
  const again = (key) => async (event) => {
    request[key] = event.target.value || null;
    // What belongs to another run makes no sense any more.
    if (key === "run") Object.assign(request, { checkpoint: null, policies: {}, other: null, recording: null });
    if (key === "recording") Object.assign(request, saidBy(state.things, request.recording));
    await fill(form, state);
  };
  const checkpoints = await checkpointsOf(state);
  const others = [[OWN, "nobody else"], ...sources(state, checkpoints)];
  const orNull = (text) => text || null;
  const place = h("div", { class: "grow" });
  put(
    form,
    h(
      "div", { class: "fields" },
      field("Run", choice(runOptions(state), request.run, again("run")), "wide"),
      field("Checkpoint", choice(checkpointOptions(checkpoints), request.checkpoint ?? NEWEST, again("checkpoint"))),
      recordingField(state, again),
      field("Episode", wholeInput(request.episode, change("episode", Number))),
      seedField(request),
      field("Decisions", choice(WAYS, request.explore ? "1" : "", change("explore", (text) => text === "1"))),
      field("Ask in the same states", choice(others, request.other ?? OWN, change("other", orNull)), "wide"),
    ),
    h("div", { class: "row" }, place, h("button", { class: "primary", type: "submit" }, "Show the episode")),
  );
  whoPlays(state, checkpoints).then((element) => put(place, element)).catch((error) => {
    if (!state.signal.aborted) put(place, h("p", { class: "message error", role: "alert" }, error.message));
  });
}

function field(name, input, kind = "") {
  return h("label", { class: `field ${kind}` }, h("span", {}, name), input);
}

function choice(options, value, onchange) {
  const element = h("select", { onchange });
  const groups = new Map();
  const known = options.some(([key]) => key === value);
  for (const [key, text, group] of known ? options : [...options, [value, value]]) {
    const option = h("option", { value: key, selected: key === value }, text);
    if (group === undefined) {
      element.append(option);
      continue;
    }
    if (!groups.has(group)) {
      groups.set(group, h("optgroup", { label: group }));
      element.append(groups.get(group));
    }
    groups.get(group).append(option);
  }
  return element;
}

function wholeInput(value, onchange) {
  return h("input", { type: "number", min: 0, step: 1, value, onchange });
}

function runOptions({ things }) {
  return things.runs.map(({ run, env, algo, kind }) => {
    const about = [algo, env].filter(Boolean).join(", ") || kind;
    return [run, run, about];
  });
}

async function checkpointsOf({ request, signal }) {
  try {
    const query = new URLSearchParams({ run: request.run });
    return (await get(`/api/episodes/checkpoints?${query}`, { signal, keep: false })).checkpoints;
  } catch {
    return []; // the run has gone; showing it will say so
  }
}

function checkpointOptions(checkpoints) {
  return [[NEWEST, "the newest"], ...[...checkpoints].reverse().map((name) => [name, name])];
}

function recordingField({ things, request }, again) {
  if (things.recordings.length === 0) return null;
  const env = envOf(things, request.run);
  const options = [["", "none: play it now"]];
  for (const { recording, env: theirs } of things.recordings) {
    options.push([recording, recording, theirs === env ? `of ${env}` : "of other envs"]);
  }
  return field("Recording", choice(options, request.recording ?? "", again("recording")), "wide");
}

function seedField(request) {
  const isKnown = request.seed !== null;
  const change = ({ target: { value } }) => (request.seed = value === "" && request.recording ? null : Number(value));
  const input = wholeInput(isKnown ? request.seed : "", change);
  if (request.recording) input.setAttribute("placeholder", "not known");
  return field("Seed of episode 0", input);
}

/** What a recording says of itself; those of rollouts say neither their run nor their seed. */
function saidBy({ recordings }, name) {
  const { run, checkpoint, seed } = recordings.find(({ recording }) => recording === name) ?? {};
  if (run) return { run, checkpoint: checkpoint ?? null, seed: seed ?? 0, episode: 0 };
  return { seed: name === null ? 0 : null };
}

function envOf({ runs }, run) {
  return runs.find((one) => one.run === run)?.env ?? null;
}

/** Where a policy may come from: checkpoints of this run, and runs of the same env. */
function sources({ things, request }, checkpoints) {
  const found = checkpoints.map((name) => [`${request.run}/checkpoints/${name}`, name, "this run"]);
  const env = envOf(things, request.run);
  for (const one of things.runs) {
    if (one.run !== request.run && one.env === env) found.push([one.run, one.run, `runs of ${env ?? "unknown envs"}`]);
  }
  return found;
}

async function whoPlays(state, checkpoints) {
  const { request, signal } = state;
  const words = { run: request.run, ...(request.checkpoint ? { checkpoint: request.checkpoint } : {}) };
  const about = await get(`/api/episodes/about?${new URLSearchParams(words)}`, { signal, keep: false });
  const options = [[OWN, "as trained"], ["random", "random"], ...sources(state, checkpoints)];
  const row = (name, text) => {
    const pick = choice(options, request.policies[name] ?? OWN, (event) => {
      if (event.target.value === OWN) delete request.policies[name];
      else request.policies[name] = event.target.value;
    });
    return field(text, pick, "wide");
  };
  const names = new Set(about.policies.map(({ policy }) => policy));
  const playing = about.policies.filter(({ agents }) => agents.length > 0);
  const rows = playing.map(({ policy, agents }) => row(policy, told(policy, agents)));
  const alone = about.agents.filter((agent) => !names.has(agent) && !agent.includes("*"));
  if (alone.length <= MOST_AGENTS) rows.push(...alone.map((agent) => row(agent, `agent ${agent}`)));
  const isChanged = Object.keys(request.policies).length > 0;
  return h("details", { open: isChanged }, h("summary", {}, "Who plays"), h("div", { class: "fields" }, rows));
}

function told(policy, agents) {
  if (agents.length === 1 && agents[0] === policy) return `policy ${policy}`;
  const names = [...new Set(agents.map((agent) => agent.replace(/\[\d+\]$/, "")))];
  return `policy ${policy} (${names.slice(0, 4).join(", ")}${names.length > 4 ? ", …" : ""})`;
}
