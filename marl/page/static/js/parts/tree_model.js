// One game on the page: its tree, the strategy that is looked at, and what was solved for it.

import { get } from "marl/api.js";
import { setQuery } from "marl/routes.js";
import { average, startCfr, step } from "marl/solve/cfr.js";
import { makeNodes, reachAndValues, reachOfSet } from "marl/solve/nodes.js";
import { evaluate, makeSolver } from "marl/solve/response.js";
import { choicesOf, compileTree, setProbability, uniform } from "marl/solve/tree.js";

const MOST_POINTS = 300; // of the curve of NashConv
const MOST_EDITS = 40; // information sets whose probabilities go into the address
const PATIENCE = 5000; // milliseconds in which what CFR+ found is found again

export class TreeModel {
  /** `asked` says which game: {name}, {env, env_config} or {run}. */
  constructor(game, asked) {
    this.game = game;
    this.asked = asked;
    this.tree = compileTree(game);
    this.strategy = uniform(this.tree);
    this.solver = makeSolver(this.tree);
    this.nodes = makeNodes(this.tree);
    this.base = "uniform";
    this.edited = new Set(); // information sets that differ from the base
    this.history = []; // NashConv after each change
    this.selected = -1; // information set
    this.updates = 0; // how often everything was solved
    this.listeners = [];
    this.waiting = false;
    this.falls = false; // by orders of magnitude: CFR+ solves, or has solved
    this.bases = { uniform: uniform(this.tree) };
    this.notes = {};
    this.solve();
  }

  /** `listener(what)` hears of every change: "numbers", "selection" or "settled" (nobody drags any more). */
  listen(listener) {
    this.listeners.push(listener);
  }

  tell(what) {
    for (const listener of this.listeners) listener(what);
  }

  /** Values, best replies, NashConv, reach: everything anew. */
  solve() {
    evaluate(this.solver, this.strategy);
    reachAndValues(this.tree, this.strategy, this.nodes);
    this.updates += 1;
    this.history.push(Math.max(0, this.solver.nashConv));
    if (this.history.length > MOST_POINTS) this.history.shift();
  }

  update() {
    this.solve();
    this.tell("numbers");
  }

  /** Solve and draw once in the next frame, however often something has moved until then. */
  updateSoon() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.update();
    });
  }

  setChoice(choice, probability) {
    setProbability(this.tree, this.strategy, choice, probability);
    this.edited.add(this.tree.owner[choice]);
    this.falls = false;
    this.updateSoon();
  }

  select(set) {
    this.selected = set;
    setQuery({ set: set >= 0 ? set : null });
    this.tell("selection");
  }

  /** What was changed goes into the address, so that it can be shared and saved. */
  settle() {
    const edits = [...this.edited].slice(-MOST_EDITS).map((set) => {
      const [first, end] = choicesOf(this.tree, set);
      return `${set}:${[...this.strategy.subarray(first, end)].map((p) => Number(p.toFixed(6))).join(",")}`;
    });
    const iterations = this.base === "cfr" ? this.cfr.iterations : null;
    setQuery({ base: this.base, iterations, edits: edits.join(";") || null });
    this.tell("settled");
  }

  /** Probabilities as they stand in an address; what does not fit is left out. */
  applyEdits(text) {
    for (const edit of (text ?? "").split(";")) {
      const [set, numbers] = edit.split(":");
      const wanted = (numbers ?? "").split(",").map(Number);
      const total = wanted.reduce((sum, p) => sum + p, 0);
      const fits = wanted.length === this.tree.numActions[Number(set)] && wanted.every((p) => p >= 0) && total > 0;
      if (!fits) continue;
      wanted.forEach((p, k) => {
        this.strategy[this.tree.firstChoice[Number(set)] + k] = p / total;
      });
      this.edited.add(Number(set));
    }
    this.update();
  }

  /** Begin again from a strategy: "uniform", "equilibrium" or "policies". */
  async reset(base, { signal } = {}) {
    await this.load(base, { signal });
    this.base = base;
    this.edited.clear();
    this.falls = false;
    this.strategy.set(this.bases[base]);
    this.update();
    this.settle();
  }

  async load(base, { signal } = {}) {
    if (base in this.bases) return;
    const found = await get(strategyAddress(this.asked, base), { signal });
    this.bases[base] = Float64Array.from(found.strategy);
    this.notes[base] = found;
  }

  /** A whole strategy of one's own, such as that of a preset. */
  setAll(strategy, sets) {
    this.strategy.set(strategy);
    for (const set of sets) this.edited.add(set);
    this.falls = false;
    this.updateSoon();
  }

  /** Iterations of CFR+ in every frame until `signal` or `onStop`; the average strategy is shown. */
  startSolving() {
    this.cfr ??= startCfr(this.tree);
    this.solving = true;
    this.falls = true;
    const frame = () => {
      if (!this.solving) return;
      const until = performance.now() + 6; // the rest of a frame is for drawing
      const many = Math.max(1, Math.ceil(this.cfr.iterations / 40)); // slow at first, so that one sees it fall
      for (let k = 0; k < many && performance.now() < until; k++) step(this.cfr);
      average(this.cfr, this.strategy);
      this.update();
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  /** What was found is what one begins with from now on. */
  stopSolving() {
    if (!this.solving) return;
    this.solving = false;
    this.keepFound();
  }

  keepFound() {
    this.base = "cfr";
    this.edited.clear();
    const method = `${this.cfr.iterations.toLocaleString("en")} iterations of CFR+`;
    this.notes.cfr = { method, nash_conv: Math.max(0, this.solver.nashConv) };
  }

  /** So many iterations of CFR+ again, as an address asks: they find the same each time. */
  async solveAgain(iterations, signal) {
    this.cfr = startCfr(this.tree);
    for (let spent = 0; spent < PATIENCE && this.cfr.iterations < iterations && !signal.aborted; ) {
      const began = performance.now();
      while (this.cfr.iterations < iterations && performance.now() < began + 12) step(this.cfr);
      spent += performance.now() - began;
      await new Promise((done) => setTimeout(done)); // the page stays alive
    }
    average(this.cfr, this.strategy);
    this.update();
    this.keepFound();
    this.settle();
  }

  // -- words
  // -------------------------------------------------------------------------------------------------------------

  /** What the player knows at an information set: "K · after pass, bet". */
  words(set) {
    const known = this.game.sets.private[set];
    const moves = this.game.sets.history[set];
    const after = moves.length ? `after ${moves.join(", ")}` : "first move";
    return known ? `${known} · ${after}` : after;
  }

  reachOf(set) {
    return reachOfSet(this.tree, this.solver.plans, set);
  }

  /** The largest regret at a set, times how often its player comes there by its own moves: what it loses there. */
  lossAt(set) {
    const [first, end] = choicesOf(this.tree, set);
    let most = 0;
    for (let c = first; c < end; c++) most = Math.max(most, this.solver.regret[c]);
    return most * this.solver.plans[this.tree.parentChoice[set] + 1];
  }
}

/** The address of a game's tree. */
export function gameAddress(asked) {
  return `/api/tree/game?${new URLSearchParams(asked)}`;
}

function strategyAddress(asked, of) {
  return `/api/tree/strategy?${new URLSearchParams({ ...asked, of })}`;
}
