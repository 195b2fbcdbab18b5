// The view "play".

import { h } from "marl/dom.js";

export async function show({ root, setTitle }) {
  setTitle("play");
  root.append(h("h1", {}, "play"));
}
