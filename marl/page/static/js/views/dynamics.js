// Learning dynamics of a small game as a phase portrait that one can click into.

import { get } from "marl/api.js";
import { add, h, put } from "marl/dom.js";
import { number } from "marl/format.js";
import { payoffChart } from "marl/parts/phase_payoffs.js";
import { manner, pointWords, portrait } from "marl/parts/phase_portrait.js";
import { payoffTable } from "marl/parts/phase_table.js";
import { badge } from "marl/parts/tree_drawing.js";
import { setQuery } from "marl/routes.js";
import { pictureButtons } from "marl/save.js";
import { DYNAMICS, advance, startAt } from "marl/solve/flow.js";
import { equilibria, isSymmetric, scaleOf, transposed, values } from "marl/solve/matrix.js";
import { replicatorEigenvalues, stability } from "marl/solve/stability.js";

const MOST_PATHS = 6;
const MOST_POINTS = 1500; // of a path that are drawn
const ROUNDS = 400;
const OWN = { 2: ["a", "b"], 3: ["a", "b", "c"] };
// What marl has no table of, but every course has.
const MORE = [
  symmetric("coordination", "Coordination", ["left", "right"], [[2, 0], [0, 1]]),
  symmetric("hawk_dove", "Hawk and dove", ["hawk", "dove"], [[-1, 4], [0, 2]]),
  symmetric("rps_win", "Rock, paper, scissors: winning pays 2", ["rock", "paper", "scissors"], [[0, -1, 2], [2, 0, -1], [-1, 2, 0]]),
  symmetric("rps_lose", "Rock, paper, scissors: losing costs 2", ["rock", "paper", "scissors"], [[0, -2, 1], [1, 0, -2], [-2, 1, 0]]),
];

function symmetric(name, title, actions, A) {
  return { name, title, actions: [actions, actions], payoffs: [A, transposed(A)] };
}

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
    this.build();
  }

  build() {
    const options = this.games.map(({ name, title }) => h("option", { value: name }, title));
    this.chooser = h("select", { id: "phase-game", onchange: () => this.choose(this.chooser.value) });
    add(this.chooser, options, h("option", { value: "own2" }, "Own game, 2 × 2"), h("option", { value: "own3" }, "Own game, 3 × 3"));
    const kinds = Object.entries(DYNAMICS).map(([key, { name }]) => h("option", { value: key }, name));
    this.kinds = h("select", { id: "phase-kind", onchange: () => this.setKind(this.kinds.value) }, kinds);
    this.lambda = h("input", {
      type: "range", id: "phase-lambda", min: 0.2, max: 20, step: 0.2, value: 5, "aria-label": "Rationality λ of the logit dynamics",
      oninput: () => this.setRationality(Number(this.lambda.value)),
    });
    this.lambdaText = h("output", {});
    this.lambdaRow = h("span", { class: "row", hidden: true }, h("label", { for: "phase-lambda" }, "λ"), this.lambda, this.lambdaText);
    this.mirror = h("input", { type: "checkbox", id: "phase-mirror", onchange: () => this.setMirror(this.mirror.checked) });
    this.words = h("p", { class: "quiet" });
    this.figures = h("div", { class: "phase-figures" });
    this.rests = h("div", {});
    this.told = h("p", { class: "quiet", role: "status" });
    const clear = h("button", { onclick: () => this.clear() }, "Clear");
    this.element = h(
      "div",
      {},
      h("h1", {}, "Learning dynamics"),
      h("div", { class: "row" }, h("label", { for: "phase-game" }, "Game"), this.chooser, h("label", { for: "phase-kind" }, "Dynamics"), this.kinds, this.lambdaRow, clear),
      this.words,
      h(
        "div",
        { class: "phase-columns" },
        h("div", { class: "card" }, this.figures, this.told),
        h(
          "div",
          { class: "tree-side" },
          h("section", { class: "card", "aria-label": "Payoffs" }, this.table.element, h("p", {}, this.mirror, " ", h("label", { for: "phase-mirror" }, "symmetric: the column player's table mirrors the row player's"))),
          h("section", { class: "card", "aria-label": "Equilibria" }, h("h2", {}, "Nash equilibria"), this.rests),
          h("section", { class: "card", "aria-label": "Payoffs over time" }, h("div", { class: "row" }, h("h2", { class: "grow" }, "Payoffs over time"), pictureButtons(() => this.chart.svg, "payoffs")), this.chart.svg, h("p", { class: "quiet pay-legend" }, badge(0), " row player (line)  ", badge(1), " column player (dashes)")),
        ),
      ),
    );
  }

  /** The game, the dynamics and the starts that an address names. */
  open(query) {
    this.kind = query.get("kind") in DYNAMICS ? query.get("kind") : "replicator";
    this.kinds.value = this.kind;
    const starts = readStarts(query.get("starts"));
    const own = readPayoffs(query.get("payoffs"));
    if (own !== null) this.setGame(own, `own${own.A.length}`);
    else this.choose(this.games.some(({ name }) => name === query.get("game")) ? query.get("game") : "rock_paper_scissors");
    const fits = starts.filter((point) => point[0].length === this.game.A.length && point[1].length === this.game.A.length);
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
    if (on) this.change({ ...this.game, B: transposed(this.game.A), actions: [this.game.actions[0], this.game.actions[0]] });
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
    const shown = found.found.filter(({ x, y }) => single !== "single" || x.every((share, i) => Math.abs(share - y[i]) < 1e-9));
    this.restPoints = shown.map(({ x, y }) => this.restAt([x, y], single === "single"));
    this.drawField();
    put(this.words, DYNAMICS[kind].words);
    this.lambdaRow.hidden = kind !== "logit";
    put(this.lambdaText, number(this.rationality, 3));
    this.tellRests(found, shown.length);
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
      manner: how, player, other: held, names: names ?? game.actions[player], title, onStart: (point) => this.start(point),
    });
    this.portraits = how === "pair" ? [make(0), make(1)] : [make(0)];
    const labels = how === "pair" ? ["Row player", "Column player"] : [null];
    this.figures.classList.toggle("pair", how === "pair");
    put(this.figures, this.portraits.map(({ svg }, k) => h(
      "figure",
      {},
      h("div", { class: "row" }, h("figcaption", { class: "grow" }, labels[k]), pictureButtons(() => svg, `dynamics_${this.name}`)),
      svg,
    )));
  }

  mannerWords() {
    if (this.how === "square") return "Click into the square, or move the cross with the arrow keys and press Enter: play starts there.";
    if (this.how === "single") return "A symmetric game, drawn as one population that plays against itself. Click into the triangle to start.";
    return "A game of two different players with three actions has four dimensions, of which only each player's own shares can be drawn; arrows hold for the other player as it plays last.";
  }

  restAt(point, single) {
    const told = stability(replicatorEigenvalues(this.game, point, single));
    return { point, ...told };
  }

  tellRests({ found, degenerate }, shown) {
    const rows = this.restPoints.map(({ point, kind, words }) => h(
      "li",
      {},
      h("span", { class: `rest-sign ${kind}`, "aria-hidden": "true" }, { stable: "●", unstable: "○", neutral: "◐" }[kind]),
      " ", pointWords(this.how === "single" ? [point[0]] : point, this.game.actions),
      h("span", { class: "quiet" }, ` pays ${values(this.game, ...point).map((paid) => number(paid, 3)).join(", ")}; ${words}`),
    ));
    const left = found.length - shown;
    put(
      this.rests,
      h("ul", { class: "rests" }, rows),
      left > 0 ? h("p", { class: "quiet" }, `${left} more in which the two play differently; they are not in this picture.`) : null,
      degenerate ? h("p", { class: "quiet" }, "The game is degenerate: these are corners of whole sets of equilibria.") : null,
      h("p", { class: "quiet" }, "Stability is that of the replicator dynamics, by the eigenvalues of its linear part."),
    );
  }

  /** How long play goes on: rounds, or time, which passes faster where payoffs are large. */
  lasts() {
    if (!["replicator", "logit"].includes(this.kind)) return ROUNDS;
    return this.kind === "logit" ? 15 : Math.max(12, 60 / scaleOf(this.game));
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
    put(this.told, `From ${pointWords(newest.points[0].slice(0, names.length), names)} to ${pointWords(newest.points.at(-1).slice(0, names.length), names)}.`);
  }

  /** What the address says, so that the view can be shared and saved. */
  remember() {
    const own = this.name.startsWith("own") ? JSON.stringify([this.game.A, this.game.B]) : null;
    const starts = this.paths.map(({ points }) => points[0].map((part) => part.map((share) => Number(share.toFixed(4))).join(",")).join("/"));
    setQuery({ game: own === null ? this.name : null, payoffs: own, kind: this.kind, starts: starts.join(";") || null });
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

/** Starts of an address, "0.9,0.1/0.5,0.5;..."; what is no distribution is left out. */
function readStarts(text) {
  const found = (text ?? "").split(";").map((one) => one.split("/").map((part) => part.split(",").map(Number)));
  const isShares = (part) => part.every((share) => share >= 0) && Math.abs(part.reduce((sum, share) => sum + share, 0) - 1) < 0.01;
  return found.filter((point) => point.length === 2 && point.every(isShares)).slice(-MOST_PATHS);
}

/** Tables of an address, or null: [[row player's], [column player's]] of 2 x 2 or 3 x 3 numbers. */
function readPayoffs(text) {
  let tables;
  try {
    tables = JSON.parse(text ?? "null");
  } catch {
    return null;
  }
  const size = tables?.[0]?.length;
  const isTable = (table) => Array.isArray(table) && table.length === size && table.every((row) => Array.isArray(row) && row.length === size && row.every(Number.isFinite));
  if (![2, 3].includes(size) || tables.length !== 2 || !tables.every(isTable)) return null;
  return { A: tables[0], B: tables[1], actions: [OWN[size], OWN[size]], title: "Own game" };
}
