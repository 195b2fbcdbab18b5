// An episode on the page: picture, scrubber, lanes, the chosen agent; and a branch or a second checkpoint beside it.

import { savedPage } from "marl/api.js";
import { h, put } from "marl/dom.js";
import { scenePicture } from "marl/draw/scene.js";
import { number } from "marl/format.js";
import { agentCard } from "marl/parts/agent_card.js";
import { Episode } from "marl/parts/episode.js";
import { disagreementList, everybody, headOf, wrongList } from "marl/parts/episode_lists.js";
import { laneLegend, lanes } from "marl/parts/lanes.js";
import { scrubber } from "marl/parts/scrubber.js";
import { whatIfPanel } from "marl/parts/whatif.js";
import { setQuery } from "marl/routes.js";
import { pictureButtons } from "marl/save.js";

const MOST_MARKS = 40;
const TABLE_MS = 100;

/** The whole of it as an element. `step` and `agent` come from the address, and go there when they change. */
export function episodeStage({ answer, step, agent, whatIf = null, signal }) {
  const stage = new Stage(answer, signal);
  stage.begin(step, agent);
  if (whatIf !== null) stage.openWhatIf(whatIf.step, whatIf.agent);
  return stage.element;
}

class Stage {
  constructor(answer, signal) {
    this.signal = signal;
    this.answer = answer;
    this.episode = new Episode(answer, signal);
    this.branch = null; // an episode that goes another way from a step on
    this.pictures = h("div", { class: "episode-pictures" });
    this.cards = h("div", { class: "episode-cards" });
    this.whatIf = h("section", { class: "card episode-what-if", hidden: true });
    this.everybody = everybody((agent) => this.choose(agent));
    this.shown = [];
  }

  begin(step, agent) {
    const { episode, signal } = this;
    this.agent = episode.agents.includes(agent) ? agent : this.firstAgent();
    this.follows = this.agent !== agent; // until the reader has chosen somebody
    this.step = Math.max(0, Math.min(episode.length, step));
    this.scrubber = scrubber({
      last: episode.length, step: this.step, signal, onStep: (now) => this.show(now), onSettle: () => this.settle(),
    });
    this.lanes = lanes({ episode, signal, onPick: (now, who) => this.goTo(now, who) });
    this.beside = h("div", { class: "columns" });
    this.ways = h("div", { class: "row lane-ways", role: "group", "aria-label": "Whose lanes" });
    this.element = h(
      "div", { class: "episode-stage" },
      this.top = h("div", { class: "episode-top" }, this.pictures, this.cards, this.everybody.element),
      h("section", { class: "card episode-scrub", "aria-label": "Time" }, this.scrubber.element),
      h(
        "section", { class: "card episode-lanes", "aria-label": "Lanes" },
        laneLegend(episode.wrong.length > 0), this.ways, this.lanes.element,
      ),
      this.whatIf, this.beside,
    );
    this.arrange();
  }

  firstAgent() {
    const worst = this.episode.trace.most_wrong[0];
    return this.episode.steps[0]?.keys().next().value ?? worst?.agent ?? this.episode.agents[0];
  }

  /** Places for what is shown: one picture and one card, or two of each. */
  arrange() {
    const all = this.branch === null ? [this.episode] : [this.episode, this.branch];
    const titles = ["As it was", "Instead"];
    this.shown = all.map((episode, i) => {
      const picture = scenePicture();
      const card = agentCard();
      const caption = h("figcaption", {}, all.length > 1 ? h("b", {}, `${titles[i]} `) : null, h("span", {}));
      return { episode, picture, card, caption, title: all.length > 1 ? titles[i] : null };
    });
    put(this.pictures, this.shown.map((one, i) => this.figure(one, i)));
    this.top.classList.toggle("two", all.length > 1);
    put(this.cards, this.shown.map(({ card }) => card.element), this.cardFoot());
    put(this.beside, wrongList(this.episode, (step, agent) => this.goTo(step, agent)), this.others());
    const longest = Math.max(...all.map(({ length }) => length));
    this.scrubber.setMarks(this.marks(), longest);
    this.useLanes(this.episode, longest);
  }

  /** Lanes of one of the two ways, and buttons for the other. */
  useLanes(episode, longest) {
    this.lanes.use(episode, longest);
    const button = (one) => {
      const onclick = () => this.useLanes(one.episode, longest);
      return h("button", { class: "small", "aria-pressed": String(one.episode === episode), onclick }, one.title);
    };
    put(this.ways, this.shown.length > 1 ? ["Lanes: ", this.shown.map(button)] : null);
  }

  figure({ picture, caption }, i) {
    const drawn = () => picture.element.querySelector("svg, canvas, img");
    const buttons = h("span", {});
    // The drawing comes with the first scene.
    queueMicrotask(() => {
      const name = `episode_${this.episode.trace.episode}${i ? "_instead" : ""}`;
      if (drawn() !== null) put(buttons, pictureButtons(drawn, name));
    });
    const foot = h("div", { class: "figure-foot" }, caption, buttons);
    return h("figure", { class: "episode-figure" }, picture.element, foot);
  }

  others() {
    if (this.branch !== null) return branchReturns(this.episode, this.branch, () => this.leaveBranch());
    if (this.episode.request.other === null) return null;
    return disagreementList(this.episode, (step, agent) => this.goTo(step, agent));
  }

  /** What belongs to the chosen agent: go on to whoever decides, or ask what else could have been. */
  cardFoot() {
    const change = (event) => {
      this.follows = event.target.checked;
      this.show(this.step);
      this.settle();
    };
    this.follow = h("input", { type: "checkbox", checked: this.follows, onchange: change });
    const ask = () => {
      this.openWhatIf(this.step, this.agent);
      this.whatIf.scrollIntoView({ block: "nearest", behavior: "smooth" });
      this.whatIf.querySelector("input, select, button:not(.close)")?.focus({ preventScroll: true });
    };
    this.ask = h("button", { class: "what-if-button", onclick: ask }, "What if it had done something else?");
    const label = h("label", { class: "follow" }, this.follow, " Show whoever decides");
    const canAsk = savedPage() === null && this.episode.trace.seed !== null;
    return h("div", { class: "row card-foot" }, canAsk ? this.ask : null, label);
  }

  marks() {
    const { wrong } = this.episode;
    const largest = Math.abs(wrong[0]?.error ?? 0) || 1;
    const found = wrong.slice(0, MOST_MARKS).map(({ step, agent, error }) => {
      const text = `step ${step}: ${agent} expected ${number(Math.abs(error))} too ${error > 0 ? "much" : "little"}`;
      return { step, kind: "wrong", height: Math.abs(error) / largest, text };
    });
    const differing = new Set(this.episode.disagreements.map(({ step }) => step));
    for (const step of differing) {
      found.push({ step, kind: "differs", text: `step ${step}: the other would do something else` });
    }
    const begins = this.branchStep;
    if (this.branch !== null) found.push({ step: begins, kind: "branch", text: `step ${begins}: the branch begins` });
    return found;
  }

  /** Show a step; often called. */
  show(step) {
    this.step = step;
    if (this.follows) this.agent = this.deciding(step);
    for (const one of this.shown) this.showOne(one, step);
    this.showEverybody();
    this.lanes.set(step, this.agent);
    const asked = this.episode.at(step, this.agent)?.asked === true;
    if (this.ask.disabled === asked) this.ask.disabled = !asked;
  }

  /** The table of all agents, at most ten times a second: nobody reads faster, and it may have hundreds of cells. */
  showEverybody() {
    if (this.tableTimer) return;
    const past = performance.now() - (this.tableShown ?? -TABLE_MS);
    const write = () => {
      this.tableTimer = 0;
      this.tableShown = performance.now();
      this.everybody.show(this.episode, this.step, this.agent);
    };
    if (past >= TABLE_MS) write();
    else this.tableTimer = setTimeout(write, TABLE_MS - past);
  }

  /** The chosen agent, or whoever decides where that one does not: in a game of turns the next one. */
  deciding(step) {
    if (this.episode.at(step, this.agent)?.asked) return this.agent;
    for (const one of this.episode.steps[step]?.values() ?? []) if (one.asked) return one.agent;
    return this.agent;
  }

  showOne({ episode, picture, card, caption }, step) {
    const now = Math.min(step, episode.length);
    const scene = episode.scene(now);
    if (scene !== undefined) picture.show(scene);
    caption.lastChild.textContent = captionOf(episode, now, step);
    card.show(episode, now, this.agent);
    if (!episode.isHere(now)) this.fetch(episode, now);
  }

  async fetch(episode, step) {
    try {
      await episode.fetch(step);
      if (this.step === step) this.show(step);
    } catch (error) {
      if (!this.signal.aborted && this.step === step) this.shown[0].caption.lastChild.textContent = error.message;
    }
  }

  settle() {
    setQuery({ step: this.step, agent: this.follows ? null : this.agent });
  }

  choose(agent) {
    this.take(agent);
    this.show(this.step);
    this.settle();
  }

  take(agent) {
    this.agent = agent;
    this.follows = false;
    this.follow.checked = false;
  }

  goTo(step, agent) {
    this.take(agent);
    this.scrubber.set(step);
  }

  openWhatIf(step, agent) {
    if (!this.episode.at(step, agent)?.asked) return;
    this.scrubber.stop();
    this.ending?.abort();
    this.ending = new AbortController();
    this.signal.addEventListener("abort", () => this.ending.abort());
    const { episode } = this;
    const close = () => {
      this.ending.abort();
      this.whatIf.hidden = true;
      setQuery({ whatif: null });
      this.leaveBranch();
    };
    const panel = whatIfPanel({
      request: episode.request, trace: episode.trace, step, agent, signal: this.ending.signal, spaces: episode.spaces,
      onBranch: (answer) => this.showBranch(answer, step, agent),
    });
    put(this.whatIf, h("button", { class: "small close", onclick: close }, "Close"), panel);
    this.whatIf.hidden = false;
  }

  showBranch(answer, step, agent) {
    this.branch = new Episode(answer, this.signal);
    this.branchStep = step;
    this.take(agent); // both ways show the same one
    this.arrange();
    this.scrubber.set(step);
    this.pictures.scrollIntoView({ block: "nearest" });
  }

  leaveBranch() {
    if (this.branch === null) return;
    this.branch = null;
    this.arrange();
  }
}

function captionOf(episode, now, step) {
  if (now < episode.length) return `before step ${now}`;
  return step > now ? `ended after ${now} steps` : episode.trace.cut ? `cut after ${now} steps` : "the end";
}

function branchReturns(episode, branch, close) {
  const agents = [...new Set([...episode.agents, ...branch.agents])];
  const rows = agents.slice(0, 50).map((agent) => {
    const before = episode.trace.returns[agent] ?? 0;
    const after = branch.trace.returns[agent] ?? 0;
    const numbers = [before, after, after - before].map((value) => h("td", { class: "number" }, number(value)));
    return h("tr", {}, h("th", { scope: "row", class: "agent-name" }, agent), numbers);
  });
  const head = headOf(["agent", "as it was", "instead", "difference"], 1);
  return h(
    "section", { class: "card" }, h("h2", {}, "Returns of both"),
    h("div", { class: "scroll" }, h("table", {}, head, h("tbody", {}, rows))),
    h("button", { class: "small", onclick: close }, "Back to the episode alone"),
  );
}

