// The view "episodes": any episode step by step, with what every policy thought.

import { get, job, savedPage } from "marl/api.js";
import { h, put } from "marl/dom.js";
import { episodeAddress, episodeChooser, requestOf } from "marl/parts/episode_chooser.js";
import { headOf } from "marl/parts/episode_lists.js";
import { episodeStage } from "marl/parts/episode_stage.js";

const MOST_LISTED = 25;

/** Fills the view; what it shows is in the address. */
export async function show({ root, query, signal, setTitle, whenShown }) {
  setTitle("Episodes");
  const request = requestOf(query);
  const head = h("h1", {}, "Episodes");
  const about = h("p", { class: "quiet episode-about" });
  const place = h("div", { class: "episode-place" });
  root.append(head, about);
  let things = { runs: [], recordings: [] };
  if (savedPage() === null) {
    things = await get("/api/episodes", { signal, keep: false });
    const form = await episodeChooser(things, request, signal);
    const words = request === null ? "Choose an episode" : "Another episode";
    root.append(h("details", { class: "card episode-choose", open: request === null }, h("summary", {}, words), form));
  }
  root.append(place);
  if (request === null) {
    put(about, "Pick a run, and watch one of its episodes step by step: what everybody saw, thought, did and earned.");
    put(place, runTable(things));
    return;
  }
  whenShown();
  await load({ request, query, place, head, about, signal, setTitle });
}

async function load({ request, query, place, head, about, signal, setTitle }) {
  const progress = h("p", { class: "quiet", role: "status" }, "Playing …");
  put(place, progress);
  try {
    const answer = await job("/api/episodes/trace", request, {
      signal, onProgress: ({ text }) => put(progress, text ? `${text} …` : "Playing …"),
    });
    const { trace } = answer;
    const title = `${trace.env}, episode ${trace.episode}`;
    setTitle(title);
    put(head, title);
    put(about, ...aboutOf(request, trace));
    const step = Number(query.get("step") ?? 0) || 0;
    put(place, episodeStage({ answer, step, agent: query.get("agent"), whatIf: whatIfOf(query), signal }));
  } catch (error) {
    if (signal.aborted) return;
    put(place, h("p", { class: "message error", role: "alert" }, error.message));
  }
}

/** The question of the panel "What if" that an address holds. */
function whatIfOf(query) {
  try {
    const { step, agent } = JSON.parse(query.get("whatif"));
    return { step, agent };
  } catch {
    return null; // there is none
  }
}

function aboutOf(request, trace) {
  const parts = [trace.checkpoint, trace.seed === null ? "seed not known" : `seed ${trace.seed}`];
  if (!request.recording) parts.push(trace.explore ? "exploring" : "greedy");
  parts.push(trace.length === 1 ? "1 step" : `${trace.length} steps`);
  for (const [who, source] of Object.entries(request.policies)) parts.push(`${who} played by ${source}`);
  if (request.recording) parts.push(`as recorded in ${request.recording}`);
  if (request.other) parts.push(`beside ${request.other.replace(`${request.run}/checkpoints/`, "")}`);
  const words = h("span", {}, parts.join(" · "));
  if (savedPage() !== null) return [words];
  const link = (by, text) => {
    const href = episodeAddress({ ...request, episode: request.episode + by });
    return h("a", { class: "button small", href }, text);
  };
  const before = request.episode > 0 ? link(-1, "Episode before") : null;
  return [words, h("span", { class: "episode-links" }, before, link(1, "Next episode"))];
}

/** The newest runs, each with a way to its first episode. */
function runTable({ runs }) {
  const rows = runs.slice(0, MOST_LISTED).map(({ run, env, algo, kind, time }) => h(
    "tr", {},
    h("td", {}, h("a", { href: episodeAddress(requestOf(new URLSearchParams({ run }))) }, run)),
    h("td", {}, env ?? "–"), h("td", {}, algo ?? "–"), h("td", {}, kind),
    h("td", { class: "number" }, new Date(1000 * time).toLocaleString()),
  ));
  if (rows.length === 0) return null;
  const caption = h("caption", {}, "The first episode of the newest checkpoint of …");
  const head = headOf(["run", "env", "algorithm", "kind", "last change"], 4);
  return h("div", { class: "scroll" }, h("table", {}, caption, head, h("tbody", {}, rows)));
}
