// The view "episodes".

import { h } from "marl/dom.js";

export async function show({ root, setTitle }) {
  setTitle("episodes");
  root.append(h("h1", {}, "episodes"));
}
