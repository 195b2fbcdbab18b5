// One game: the board, whose turn it is, moves, hints, taking back, and playing again.

import { follow, get, post, savedPage } from "marl/api.js";
import { h, put, say } from "marl/dom.js";
import { scenePicture } from "marl/draw/scene.js";
import { number } from "marl/format.js";
import { realTime } from "marl/parts/play_clock.js";
import { moveControls } from "marl/parts/play_moves.js";
import { gameName, notePlaces } from "marl/parts/play_names.js";
import { hintBox, invitations, observationBox, revealedBox } from "marl/parts/play_told.js";
import { scoreTable, seatList, statusOf } from "marl/parts/play_told.js";
import { address } from "marl/routes.js";

const FRAME_MS = 320; // between two drawings of what the others did
const LONGEST_MS = 2400; // of all of them
const BY_TURNS = ["board", "cards", "matrix"]; // scenes of games that nobody plays in real time
const PARTS = ["who", "moves", "hint", "after", "score", "seen", "invite", "clock"];

/** The view of a game. */
export async function table({ root, signal, setTitle }, game) {
  const path = `/api/play/games/${encodeURIComponent(game)}`;
  const first = await get(path, { signal });
  setTitle(`Play ${gameName(first.title)}`);
  document.body.classList.toggle("play-guest", first.guest);
  signal.addEventListener("abort", () => document.body.classList.remove("play-guest"));
  const place = new Table(root, path, signal, first);
  place.show(first);
  if (savedPage() !== null) return;
  put(place.parts.invite, await invitations(first, signal));
  document.addEventListener("keydown", (event) => place.key(event), { signal });
  document.addEventListener("keyup", (event) => place.clock.release(event), { signal });
  follow(path, (shown) => place.show(shown), { signal, onTrouble: (error) => place.trouble(error) });
}

class Table {
  constructor(root, path, signal, first) {
    this.path = path;
    this.signal = signal;
    this.shown = null; // what the server told last
    this.text = ""; // the same as text, to see whether anything has changed
    this.seat = null; // of several own seats the one that is asked
    this.busy = false;
    this.hint = null;
    this.moving = 0; // counts animations; 0 while none is shown
    this.controls = null;
    this.places = {}; // names of actions by their places on the board
    const send = (action) => this.send(action);
    this.picture = scenePicture({ onAction: send, legal: () => this.legal(), seat: first.mine[0] ?? null });
    this.clock = realTime({ send, ready: () => this.isAsked() && !this.busy, signal });
    this.parts = Object.fromEntries(PARTS.map((name) => [name, h("div")]));
    this.build(root, first);
  }

  build(root, first) {
    const { parts } = this;
    const live = savedPage() === null;
    this.status = h("p", { class: "play-status", role: "status" });
    this.earned = h("span", { class: "quiet number" });
    this.undoButton = tool("Undo", "u", () => this.undo());
    this.hintButton = tool("Hint", "h", () => this.ask());
    const tools = h("div", { class: "row play-tools" }, this.undoButton, this.hintButton, this.earned);
    const seats = h("section", { class: "card" }, h("h2", {}, "Seats"), parts.who);
    const other = live && !first.guest ? h("a", { href: address("play") }, "Another game") : null;
    const name = h("h1", {}, gameName(first.title));
    const from = [first.title.run, first.title.checkpoint].filter(Boolean).join(", ");
    const board = h("section", { class: "play-board", "aria-label": "The game" },
      this.status, this.picture.element, live ? [parts.moves, tools] : null, parts.after);
    const side = h("div", { class: "play-side" },
      parts.hint, parts.invite, seats, parts.score, live ? parts.clock : null, parts.seen);
    root.append(
      h("div", { class: "play-head" }, name, other, from ? h("p", { class: "quiet" }, from) : null),
      h("div", { class: "play-table" }, board, side));
  }

  // -- showing ----------------------------------------------------------------------------------------------------

  show(shown) {
    const text = JSON.stringify(shown);
    if (text === this.text) return;
    const before = this.shown;
    this.text = text;
    this.shown = shown;
    const fresh = before === null || before.round !== shown.round;
    const moved = fresh || before.turn !== shown.turn;
    if (moved) this.hint = null;
    if (fresh) this.controls = null; // another seat may have other moves
    this.seat = this.seatNow();
    put(this.status, statusOf(shown));
    this.status.classList.toggle("mine", this.isAsked());
    put(this.parts.who, seatList(shown));
    put(this.parts.score, scoreTable(shown.scores));
    this.parts.invite.hidden = shown.seats.every((seat) => !seat.person || seat.here);
    this.showMoves();
    this.showEnd();
    if (moved || before.over !== shown.over || before.ended !== shown.ended) this.animate(before !== null && moved);
    else if (!this.moving) this.drawAgain(); // what may be clicked can change while the picture stays
  }

  seatNow() {
    const { mine, views } = this.shown;
    return mine.find((agent) => views[agent]?.asked && views[agent].chosen === null) ?? mine[0] ?? null;
  }

  get view() {
    return this.seat === null ? null : (this.shown.views[this.seat] ?? null);
  }

  isAsked() {
    const { view, shown } = this;
    return view !== null && view.asked && view.chosen === null && !shown.over && !shown.ended;
  }

  /** Actions that may be taken by a click; none while somebody else is asked or the others' moves are being shown. */
  legal() {
    if (savedPage() !== null || !this.isAsked() || this.moving) return [];
    const [mask] = this.view.legal ?? [null];
    return mask === null ? null : mask.flatMap((free, action) => (free ? [action] : []));
  }

  showMoves() {
    const { view, parts } = this;
    if (view === null) return;
    if (this.controls === null) this.beginMoves(view);
    const { legal, chosen } = view;
    this.controls.update({ legal, asked: this.isAsked(), chosen, hinted: this.hint?.action ?? null });
    this.seen.update(view);
    this.undoButton.disabled = !this.shown.undo;
    this.undoButton.title = this.shown.why_no_undo;
    this.hintButton.disabled = !this.isAsked() || !view.advice;
    this.hintButton.title = view.asked && !view.advice ? "No trained policy knows this seat." : "";
    this.earned.textContent = `Your return: ${number(view.return)}`;
    put(parts.hint, this.hint === null ? null : hintBox(this.hint, view.action, this.places));
  }

  /** Controls and boxes that stay while a game lasts. */
  beginMoves(view) {
    const scene = view.frames.at(-1);
    notePlaces(scene, this.places);
    this.controls = moveControls(view.action, this.places, (action) => this.send(action));
    this.seen = observationBox(view, scene === null);
    // A board is clicked: its list of moves is only there for those who want it.
    const folded = scene?.kind === "board";
    const list = h("details", { class: "play-folded" }, h("summary", {}, "Moves as a list"), this.controls.element);
    put(this.parts.moves, folded ? list : this.controls.element);
    put(this.parts.seen, this.seen.element);
    const byTurns = BY_TURNS.includes(scene?.kind);
    put(this.parts.clock, byTurns ? null : this.clock.element(view.action, this.controls));
  }

  showEnd() {
    const { shown, parts } = this;
    const done = shown.over || shown.ended !== "";
    parts.moves.hidden = done;
    this.undoButton.hidden = this.hintButton.hidden = done;
    if (!done) {
      put(parts.after);
      return;
    }
    this.clock.stop();
    const again = h("button", { type: "button", class: "primary", onclick: () => this.again(false) }, "Play again");
    const swapped = h("button", { type: "button", onclick: () => this.again(true) }, "Again, seats swapped");
    const buttons = h("div", { class: "row" }, again, shown.seats.length > 1 ? swapped : null);
    put(parts.after, savedPage() === null ? buttons : null, shown.over ? revealedBox(shown, this.places) : null);
  }

  /** What happened since the last own move, one drawing after the other. */
  async animate(moved) {
    const mine = ++this.moving;
    const frames = this.view?.frames ?? [];
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches || this.clock.runs;
    const first = moved && !calm ? 0 : Math.max(0, frames.length - 1);
    for (const frame of frames.slice(first, -1)) {
      this.draw(frame);
      await new Promise((done) => setTimeout(done, Math.min(FRAME_MS, LONGEST_MS / frames.length)));
      if (mine !== this.moving || this.signal.aborted) return;
    }
    this.moving = 0;
    this.drawAgain();
  }

  /** How the game stands now; what is legal can be clicked. */
  drawAgain() {
    const { shown, view } = this;
    const frames = view?.frames ?? [];
    if (shown.over && shown.revealed.scene !== null) this.draw(shown.revealed.scene);
    else if (frames.length) this.draw(frames.at(-1));
    else this.draw({ kind: "text", text: "You look on: the game is shown when it is over." });
  }

  draw(scene) {
    notePlaces(scene, this.places);
    this.picture.show(scene);
    this.markHint(scene);
  }

  /** The place of the hint on a board. */
  markHint(scene) {
    const cells = this.picture.element.querySelectorAll(".place");
    cells.forEach((cell) => cell.classList.remove("hinted"));
    if (this.hint === null || scene?.kind !== "board") return;
    for (const [key, action] of Object.entries(scene.actions ?? {})) {
      const [row, column] = key.split(",").map(Number);
      if (action === this.hint.action[0]) cells[row * scene.columns + column]?.classList.add("hinted");
    }
  }

  // -- doing ------------------------------------------------------------------------------------------------------

  async send(action) {
    if (!this.isAsked() || this.busy) return;
    await this.does("move", { agent: this.seat, action, turn: this.shown.turn });
  }

  async undo() {
    if (this.shown.undo && !this.busy) await this.does("undo", {});
  }

  async again(swap) {
    if (!this.busy) await this.does("again", { swap });
  }

  async ask() {
    if (!this.isAsked() || !this.view.advice || this.busy) return;
    const { turn } = this.shown;
    const found = await this.asks("hint", { agent: this.seat });
    if (found === null || turn !== this.shown.turn) return;
    this.hint = found;
    this.showMoves();
    this.drawAgain();
  }

  async does(what, body) {
    const shown = await this.asks(what, body);
    if (shown === null) return;
    this.show(shown);
    // A saved file is made of what was fetched, and has to hold this move as well.
    get(this.path, { signal: this.signal }).catch(() => {});
  }

  /** A request to this game; null where it was refused, which is said. */
  async asks(what, body) {
    this.busy = true;
    try {
      return await post(`${this.path}/${what}`, body, { signal: this.signal });
    } catch (error) {
      if (this.signal.aborted) return null;
      this.clock.stop();
      say(error.message, "error");
      return null;
    } finally {
      this.busy = false;
    }
  }

  trouble(error) {
    const away = error !== null;
    if (away) put(this.status, error.message);
    else if (this.status.classList.contains("away")) put(this.status, statusOf(this.shown));
    this.status.classList.toggle("away", away);
  }

  key(event) {
    const target = event.target;
    const writes = target.closest?.("input, select, textarea, summary");
    const presses = event.key === " " && target.closest?.("button, a");
    const walks = event.key.startsWith("Arrow") && target.closest?.(".scene"); // a board has keys of its own
    const modified = event.ctrlKey || event.metaKey || event.altKey;
    if (modified || writes || presses || walks || this.controls === null) return;
    const action = this.controls.press(event.key);
    if (action !== null && this.clock.runs) this.clock.hold(event.key, action);
    else if (action !== null && !event.repeat) this.send(action);
    else if (event.key === "u") this.undo();
    else if (event.key === "h") this.ask();
    else return;
    event.preventDefault();
  }
}

function tool(name, key, act) {
  return h("button", { type: "button", onclick: act }, name, h("kbd", { "aria-hidden": "true" }, key));
}
