// Playing against policies and people: choosing a game, and the game itself.

import { chooser } from "marl/parts/play_chooser.js";
import { table } from "marl/parts/play_table.js";

/** `#/play` chooses a game (`?run=...` chooses the run), `#/play/GAME` is one. */
export async function show(view) {
  const [game] = view.parts;
  await (game ? table(view, game) : chooser(view));
}
