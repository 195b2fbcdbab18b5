// The view "episodes": any episode step by step, with what every policy thought.

import { job, savedPage } from "marl/api.js";
import { h, put } from "marl/dom.js";
import { episodeAddress, episodeChooser, requestOf } from "marl/parts/episode_chooser.js";
import { episodeStage } from "marl/parts/episode_stage.js";

export async function show({ root, query, signal, setTitle, whenShown }) {
  setTitle("Episodes");
  const request = requestOf(query);
  const head = h("h1", {}, "Episodes");
  const about = h("p", { class: "quiet episode-about" });
  const place = h("div", { class: "episode-place" });
  root.append(head, about);
  if (savedPage() === null) {
    const form = await episodeChooser(request, signal);
    const words = request === null ? "Choose an episode" : "Another episode";
    root.append(h("details", { class: "card episode-choose", open: request === null }, h("summary", {}, words), form));
  }
  root.append(place);
  if (request === null) {
    put(about, "Pick a run, and watch one of its episodes step by step: what everybody saw, thought, did and earned.");
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
    put(place, episodeStage({ answer, step, agent: query.get("agent"), signal }));
  } catch (error) {
    if (signal.aborted) return;
    put(place, h("p", { class: "message error", role: "alert" }, error.message));
  }
}

function aboutOf(request, trace) {
  const parts = [trace.checkpoint, `seed ${trace.seed}`, trace.explore ? "exploring" : "greedy", `${trace.length} steps`];
  for (const [who, source] of Object.entries(request.policies)) parts.push(`${who} played by ${source}`);
  if (request.recording) parts.push(`as recorded in ${request.recording}`);
  if (request.other) parts.push(`beside ${request.other}`);
  const words = h("span", {}, parts.join(" · "));
  if (savedPage() !== null) return [words];
  const link = (by, text) => h("a", { class: "button small", href: episodeAddress({ ...request, episode: request.episode + by }) }, text);
  return [words, h("span", { class: "episode-links" }, request.episode > 0 ? link(-1, "Episode before") : null, link(1, "Next episode"))];
}
