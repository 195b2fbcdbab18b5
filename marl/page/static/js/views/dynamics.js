// The view "dynamics".

import { h } from "marl/dom.js";

export async function show({ root, setTitle }) {
  setTitle("dynamics");
  root.append(h("h1", {}, "dynamics"));
}
