// The view "games".

import { h } from "marl/dom.js";

export async function show({ root, setTitle }) {
  setTitle("games");
  root.append(h("h1", {}, "games"));
}
