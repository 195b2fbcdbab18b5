// One game: the board, whose turn it is, moves, hints, taking back, and playing again.

import { follow, get, post, savedPage } from "marl/api.js";
import { h, put, say } from "marl/dom.js";
import { scenePicture } from "marl/draw/scene.js";
import { number } from "marl/format.js";
import { realTime } from "marl/parts/play_clock.js";
import { moveControls } from "marl/parts/play_moves.js";
import { hintBox, invitations, observationBox, revealedBox, scoreTable, seatList, statusOf } from "marl/parts/play_told.js";
import { address } from "marl/routes.js";

const FRAME_MS = 320; // between two drawings of what the others did

/** The view of a game. */
export async function table({ root, signal, setTitle }, game) {
  const path = `/api/play/games/${encodeURIComponent(game)}`;
  const first = await get(path, { signal });
  const place = new Table(root, path, signal, first);
  setTitle(`Play ${first.title.name}`);
  document.body.classList.toggle("play-guest", first.guest);
  signal.addEventListener("abort", () => document.body.classList.remove("play-guest"));
  place.show(first);
  if (savedPage() !== null) return;
  put(place.parts.invite, await invitations(first, signal));
  document.addEventListener("keydown", (event) => place.key(event), { signal });
  document.addEventListener("keyup", (event) => place.clock.release(event), { signal });
  follow(path, (shown) => place.show(shown), { every: 1000, signal, onTrouble: (error) => place.trouble(error) });
}

class Table {
  constructor(root, path, signal, first) {
    Object.assign(this, { path, signal, shown: null, busy: false, hint: null, moving: 0, seat: null, controls: null, key_: "" });
    this.picture = scenePicture({ onAction: (action) => this.send(action), legal: () => this.legal(), seat: first.mine[0] ?? null });
    this.parts = Object.fromEntries(["who", "moves", "hint", "after", "score", "seen", "invite", "clock"].map((name) => [name, h("div")]));
    this.status = h("p", { class: "play-status", role: "status" });
    this.earned = h("span", { class: "quiet number" });
    this.undoButton = h("button", { type: "button", onclick: () => this.undo() }, "Undo", h("kbd", { "aria-hidden": "true" }, "u"));
    this.hintButton = h("button", { type: "button", onclick: () => this.ask() }, "Hint", h("kbd", { "aria-hidden": "true" }, "h"));
    this.tools = h("div", { class: "row play-tools" }, this.undoButton, this.hintButton, this.earned);
    this.clock = realTime({ send: (action) => this.send(action), ready: () => this.isAsked() && !this.busy, signal });
    const live = savedPage() === null;
    root.append(
      h("div", { class: "row play-head" }, h("h1", {}, first.title.name),
        live && !first.guest ? h("a", { href: address("play") }, "Another game") : null),
      h("div", { class: "play-table" },
        h("section", { class: "play-board", "aria-label": "The game" }, this.status, this.picture.element, live ? this.parts.moves : null,
          live ? this.tools : null, this.parts.after),
        h("div", { class: "play-side" }, this.parts.hint, this.parts.invite, h("section", { class: "card" }, h("h2", {}, "Seats"), this.parts.who),
          this.parts.score, this.parts.clock, this.parts.seen)));
  }

  // -- showing ----------------------------------------------------------------------------------------------------

  show(shown) {
    const text = JSON.stringify(shown);
    if (text === this.key_) return;
    const before = this.shown;
    this.key_ = text;
    this.shown = shown;
    const moved = before === null || before.turn !== shown.turn || before.round !== shown.round;
    if (moved) this.hint = null;
    this.seat = this.seatNow();
    put(this.status, statusOf(shown));
    this.status.classList.toggle("mine", this.isAsked());
    put(this.parts.who, seatList(shown));
    put(this.parts.score, scoreTable(shown.scores));
    this.showMoves();
    this.showEnd();
    const drawn = before === null || moved || before.over !== shown.over || before.ended !== shown.ended;
    if (drawn) this.animate(before !== null && moved);
  }

  /** Of several own seats the one that is asked. */
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
    if (!this.isAsked() || this.moving || this.busy) return [];
    const [mask] = this.view.legal ?? [null];
    return mask === null ? null : mask.flatMap((free, action) => (free ? [action] : []));
  }

  showMoves() {
    const { view, parts } = this;
    if (view === null) return;
    if (this.controls === null) {
      this.controls = moveControls(view.action, (action) => this.send(action));
      this.seen = observationBox(view, view.frames.at(-1) === null);
      put(parts.moves, this.controls.element);
      put(parts.seen, this.seen.element);
      put(parts.clock, this.clock.element(view.action, this.controls));
    }
    const chosen = view.chosen;
    this.controls.update({ legal: view.legal, asked: this.isAsked(), chosen, hinted: this.hint?.action ?? null });
    this.seen.update(view);
    this.undoButton.disabled = !this.shown.undo;
    this.undoButton.title = this.shown.why_no_undo;
    this.hintButton.disabled = !this.isAsked();
    this.earned.textContent = `Your return: ${number(view.return)}`;
    put(parts.hint, this.hint === null ? null : hintBox(this.hint, view.action));
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
    const again = (swap, text, kind) => h("button", { type: "button", class: kind, onclick: () => this.again(swap) }, text);
    const buttons = savedPage() !== null ? null : h("div", { class: "row" },
      again(false, "Play again", "primary"), shown.seats.length > 1 ? again(true, "Play again, seats swapped", "") : null);
    put(parts.after, buttons, shown.over ? revealedBox(shown) : null);
  }

  /** What happened since the last own move, one drawing after the other. */
  async animate(moved) {
    const mine = ++this.moving;
    const { shown, view } = this;
    const frames = [...(view?.frames ?? [])];
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches || this.clock.runs;
    const first = moved && !calm ? 0 : Math.max(0, frames.length - 1);
    for (let i = first; i < frames.length; i++) {
      if (this.signal.aborted || mine !== this.moving) return;
      this.picture.show(frames[i]);
      if (i < frames.length - 1) await new Promise((done) => setTimeout(done, Math.min(FRAME_MS, 2400 / frames.length)));
    }
    if (mine !== this.moving || this.signal.aborted) return;
    this.moving = 0;
    if (shown.over && shown.revealed.scene !== null) this.picture.show(shown.revealed.scene);
    else if (frames.length) this.picture.show(frames.at(-1)); // once more: now its places can be clicked
    if (view === null && !shown.over) this.picture.show({ kind: "text", text: "You look on: the game is shown when it is over." });
  }

  // -- doing ------------------------------------------------------------------------------------------------------

  async send(action) {
    if (!this.isAsked() || this.busy) return;
    await this.does("move", { agent: this.seat, action, turn: this.shown.turn });
  }

  async undo() {
    if (this.shown.undo) await this.does("undo", {});
  }

  async again(swap) {
    this.controls = swap ? null : this.controls;
    await this.does("again", { swap });
  }

  async ask() {
    if (!this.isAsked() || this.busy) return;
    const { turn } = this.shown;
    const found = await this.asks("hint", { agent: this.seat });
    if (found === null || turn !== this.shown.turn) return;
    this.hint = found;
    this.showMoves();
  }

  async does(what, body) {
    const shown = await this.asks(what, body);
    if (shown !== null) this.show(shown);
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
    this.status.classList.toggle("away", error !== null);
    if (error !== null) put(this.status, error.message);
  }

  key(event) {
    const inField = event.target.closest?.("input, select, textarea, summary, [contenteditable]");
    if (event.ctrlKey || event.metaKey || event.altKey || inField || this.controls === null) return;
    if (event.key.startsWith("Arrow") && event.target.closest?.(".scene")) return; // the board has keys of its own
    const action = this.controls.press(event.key);
    if (this.clock.runs && action !== null) {
      this.clock.hold(event.key, action);
    } else if (event.key === "u") {
      this.undo();
    } else if (event.key === "h") {
      this.ask();
    } else if (event.key === " " && event.target.closest?.("button")) {
      return; // it presses the button
    } else if (action !== null && !event.repeat) {
      this.send(action);
    } else {
      return;
    }
    event.preventDefault();
  }
}
