// The view "tree".

import { h } from "marl/dom.js";

export async function show({ root, setTitle }) {
  setTitle("tree");
  root.append(h("h1", {}, "tree"));
}
