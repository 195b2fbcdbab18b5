// Learning dynamics of a small game as a phase portrait that one can click into.

import { get } from "marl/api.js";
import { add, h, put } from "marl/dom.js";
import { number } from "marl/format.js";
import { MORE, MOST_PATHS, OWN, readPayoffs, readStarts } from "marl/parts/phase_games.js";
import { basinList } from "marl/parts/phase_basins.js";
import { buildPage } from "marl/parts/phase_page.js";
import { payoffChart } from "marl/parts/phase_payoffs.js";
import { manner, pointWords, portrait } from "marl/parts/phase_portrait.js";
import { restList } from "marl/parts/phase_rests.js";
import { payoffTable } from "marl/parts/phase_table.js";
import { setQuery } from "marl/routes.js";
import { pictureButtons } from "marl/save.js";
import { DYNAMICS, advance, startAt } from "marl/solve/flow.js";
import { equilibria, isSymmetric, scaleOf, transposed, values } from "marl/solve/matrix.js";
import { replicatorEigenvalues, stability } from "marl/solve/stability.js";

const MOST_POINTS = 1500; // of a path that are drawn
const ROUNDS = 400;
const MANNERS = {
  square: "Click into the square, or move the cross with the arrow keys and press Enter: play starts there.",
  single: "A symmetric game, drawn as one population that plays against itself. Click into it to start.",
  pair: "A game of two different players with three actions has four dimensions, of which only each player's own " +
    "shares can be drawn; arrows hold for the other player as it plays last.",
};
let shown = null; // the view on the page, for tests

/** The trajectories that are shown, for tests: [{points, times, payoffs, isOver}]. */
export function pathsShown() {
  return shown.paths.map(({ points, times, payoffs, isOver }) => ({ points, times, payoffs, isOver: isOver === true }));
}

export async function show({ root, query, signal, setTitle }) {
  const games = [...(await get("/api/dynamics/games", { signal })), ...MORE];
  const view = new PhaseView(games, setTitle, signal);
  shown = view;
  add(root, view.element);
  view.open(query);
}

class PhaseView {
  constructor(games, setTitle, signal) {
    this.games = games;
    this.setTitle = setTitle;
    this.kind = "replicator";
    this.rationality = 5;
    this.paths = [];
    signal.addEventListener("abort", () => {
      this.ended = true;
    });
    this.table = payoffTable((game) => this.change(game));
    this.chart = payoffChart(() => (["fictitious", "regret"].includes(this.kind) ? "round" : "time"));
    buildPage(this);
  }

  /** The game, the dynamics and the starts that an address names. */
  open(query) {
    this.kind = query.get("kind") in DYNAMICS ? query.get("kind") : "replicator";
    this.kinds.value = this.kind;
    const rationality = Number(query.get("lambda"));
    if (rationality > 0 && rationality <= 20) this.rationality = rationality;
    this.lambda.value = this.rationality;
    const starts = readStarts(query.get("starts"));
    const own = readPayoffs(query.get("payoffs"));
    if (own !== null) this.setGame(own, `own${own.A.length}`);
    else this.choose(
      this.games.some(({ name }) => name === query.get("game")) ? query.get("game") : "rock_paper_scissors",
    );
    const fits = starts.filter(
      (point) => point[0].length === this.game.A.length && point[1].length === this.game.A.length,
    );
    for (const point of fits) this.start(point);
  }

  choose(name) {
    const known = this.games.find((game) => game.name === name);
    if (known !== undefined) {
      this.setGame({ A: known.payoffs[0], B: known.payoffs[1], actions: known.actions, title: known.title }, name);
      return;
    }
    const size = name === "own2" ? 2 : 3;
    const A = Array.from({ length: size }, (_, i) => Array.from({ length: size }, (_, j) => (i === j ? 1 : 0)));
    this.setGame({ A, B: transposed(A), actions: [OWN[size], OWN[size]], title: "Own game" }, name);
  }

  setGame(game, name) {
    this.chooser.value = name;
    this.name = name;
    this.game = game;
    this.isMirror = isSymmetric(game);
    this.mirror.checked = this.isMirror;
    this.table.show(game, this.isMirror);
    this.setTitle(`Dynamics of ${game.title ?? "own game"}`);
    this.redraw();
  }

  /** Another table was typed in. */
  change(game) {
    this.game = { ...game, title: "Own game" };
    this.name = `own${game.A.length}`;
    this.chooser.value = this.name;
    this.redraw();
  }

  setMirror(on) {
    this.isMirror = on;
    if (on) this.change(
      { ...this.game, B: transposed(this.game.A), actions: [this.game.actions[0], this.game.actions[0]] },
    );
    this.table.show(this.game, on);
  }

  setKind(kind) {
    this.kind = kind;
    this.redraw();
  }

  setRationality(value) {
    this.rationality = value;
    this.redraw();
  }

  clear() {
    this.paths = [];
    this.drawPaths();
    this.remember();
  }

  /** The portraits of the game, with arrows and equilibria; what was started starts again. */
  redraw() {
    const { game, kind } = this;
    const single = manner(game, isSymmetric(game));
    const before = this.paths.map(({ points }) => points[0]);
    const fits = ([x, y]) => x.length === game.A.length && (single !== "single" || String(x) === String(y));
    const same = before.filter(fits);
    this.how = single;
    this.paths = [];
    this.makePortraits();
    const found = equilibria(game);
    const shown = found.found.filter(
      ({ x, y }) => single !== "single" || x.every((share, i) => Math.abs(share - y[i]) < 1e-9),
    );
    this.restPoints = shown.map(({ x, y }) => this.restAt([x, y], single === "single"));
    this.drawField();
    put(this.words, DYNAMICS[kind].words);
    this.lambdaRow.hidden = kind !== "logit";
    put(this.lambdaText, number(this.rationality, 3));
    const left = found.found.length - shown.length;
    const list = { rests: this.restPoints, left, degenerate: found.degenerate, game, single: single === "single" };
    put(this.rests, restList(list));
    put(this.basins, null);
    this.basinButton.hidden = !["replicator", "best_response"].includes(kind);
    put(this.told, this.mannerWords());
    const still = values(game, uniformOf(game), uniformOf(game));
    this.chart.update({ times: [0, 1], payoffs: [still, still] });
    for (const point of same) this.start(point);
    this.remember();
  }

  drawField() {
    const { hasField } = DYNAMICS[this.kind];
    const options = { kind: this.kind, rationality: this.rationality, hasField, rests: this.restPoints };
    for (const one of this.portraits) one.draw(this.game, options);
  }

  makePortraits() {
    const { game, how } = this;
    const title = `${this.kinds.selectedOptions[0]?.textContent ?? ""} dynamics of ${game.title ?? "the game"}`;
    const held = () => this.paths.at(-1)?.points.at(-1) ?? [uniformOf(game), uniformOf(game)];
    const names = how === "square" ? game.actions : null;
    const make = (player) => portrait({
      manner: how, player, other: held, names: names ?? game.actions[player], title,
      onStart: (point) => this.start(point),
    });
    this.portraits = how === "pair" ? [make(0), make(1)] : [make(0)];
    const labels = how === "pair" ? ["Row player", "Column player"] : [null];
    this.figures.classList.toggle("pair", how === "pair");
    put(this.figures, this.portraits.map(({ svg }, k) => h(
      "figure",
      {},
      h(
        "div",
        { class: "row" },
        h("figcaption", { class: "grow" }, labels[k]),
        pictureButtons(() => svg, `dynamics_${this.name}`),
      ),
      svg,
    )));
  }

  mannerWords() {
    return MANNERS[this.how];
  }

  restAt(point, single) {
    const told = stability(replicatorEigenvalues(this.game, point, single));
    return { point, ...told };
  }

  /** From how many of all starts play ends where: worked out by marl, when it is asked for. */
  async findBasins() {
    const { game, kind, how } = this;
    const payoffs = JSON.stringify([game.A, game.B]);
    const words = new URLSearchParams({ payoffs, kind, populations: how === "single" ? 1 : 2 });
    put(this.basins, "Following random starts …");
    const told = await get(`/api/dynamics/basins?${words}`).catch((error) => ({ message: error.message }));
    if (this.game === game && this.kind === kind) put(this.basins, basinList(told, game));
  }

  /** How long play goes on: rounds, or time, which passes faster where payoffs are large. */
  lasts() {
    if (["fictitious", "regret"].includes(this.kind)) return ROUNDS;
    return this.kind !== "replicator" ? 15 : Math.max(12, 60 / scaleOf(this.game));
  }

  /** A trajectory from here, drawn while it goes. */
  start(point) {
    const colour = this.paths.length ? (this.paths.at(-1).colour + 1) % 7 : 0;
    const state = startAt(this.game, this.kind, point, { rationality: this.rationality });
    const path = { colour, state, points: [point], times: [0], payoffs: [values(this.game, ...point)] };
    this.paths = [...this.paths, path].slice(-MOST_PATHS);
    this.remember();
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const steps = Math.ceil(this.lasts() / state.size);
    const [perFrame, every] = [Math.ceil(steps / (still ? 1 : 240)), Math.ceil(steps / MOST_POINTS)];
    let done = 0;
    const frame = () => {
      if (this.ended || !this.paths.includes(path)) return;
      for (let k = 0; k < perFrame && done < steps; k++) {
        advance(state);
        done += 1;
        if (done % every === 0) keep(path, this.game);
      }
      this.drawPaths();
      if (done < steps) requestAnimationFrame(frame);
      else path.isOver = true;
    };
    requestAnimationFrame(frame);
  }

  drawPaths() {
    for (const one of this.portraits) one.drawPaths(this.paths);
    const newest = this.paths.at(-1);
    if (newest === undefined) return;
    if (this.how === "pair") this.drawField(); // the other player has moved, and arrows with it
    this.chart.update(newest);
    const names = this.how === "single" ? [this.game.actions[0]] : this.game.actions;
    const words = (point) => pointWords(point.slice(0, names.length), names);
    put(
      this.told,
      `From ${words(newest.points[0])} to ${words(newest.points.at(-1))}.`,
    );
  }

  /** What the address says, so that the view can be shared and saved. */
  remember() {
    const own = this.name.startsWith("own") ? JSON.stringify([this.game.A, this.game.B]) : null;
    const starts = this.paths.map(
      ({ points }) => points[0].map((part) => part.map((share) => Number(share.toFixed(4))).join(",")).join("/"),
    );
    const game = own === null ? this.name : null;
    const lambda = this.kind === "logit" ? this.rationality : null;
    setQuery({ game, payoffs: own, kind: this.kind, lambda, starts: starts.join(";") || null });
  }
}

function keep(path, game) {
  path.points.push(path.state.point);
  path.times.push(path.state.time);
  path.payoffs.push(values(game, ...path.state.point));
}

function uniformOf(game) {
  return game.A.map(() => 1 / game.A.length);
}
