// The frame of the page: the bar on top, and the view that the address names.

import { forget, savedPage, takeToken } from "marl/api.js";
import { h, put } from "marl/dom.js";
import { FIRST, VIEWS, address, parse } from "marl/routes.js";
import { viewButton } from "marl/save.js";

let leaving = null; // ends what the view that is shown has begun
let title = "marl watch";

function bar(shown) {
  const links = [];
  for (const [key, { name }] of Object.entries(VIEWS)) {
    const isShown = key === shown || (key === "runs" && shown === "run");
    if (name) links.push(h("a", { href: address(key), "aria-current": isShown ? "page" : null }, name));
  }
  const inFile = savedPage() !== null;
  put(
    document.getElementById("bar"),
    h("a", { class: "brand", href: inFile ? null : address(FIRST) }, "marl"),
    inFile ? h("span", { class: "saved-note" }, savedPage().title) : h("nav", { "aria-label": "Views" }, links),
    viewButton(() => title),
  );
  // On a phone the bar is wider than the screen.
  document.querySelector("#bar [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  // On a phone the links are one line that scrolls: the one of this view is to be seen.
  document.querySelector("#bar [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
}

async function show() {
  if (leaving !== null) leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  forget();
  const file = savedPage();
  const { view, parts, query } = parse(file === null ? location.hash : file.view);
  const main = document.getElementById("main");
  bar(view);
  put(main, h("p", { class: "quiet" }, "Loading …"));
  const known = VIEWS[view];
  if (known === undefined) {
    put(main, h("h1", {}, "Not found"), h("p", {}, `There is no view ${view}. The bar on top lists what there is.`));
    return;
  }
  try {
    const module = await import(known.module);
    if (signal.aborted) return;
    // A view fills `root` and says what it is called; what it has begun ends with `signal`.
    const root = h("div", { class: `view view-${view}` });
    await module.show({ root, parts, query, signal, setTitle, whenShown: () => put(main, root) });
    if (signal.aborted) return;
    if (!root.isConnected) put(main, root);
    main.dataset.ready = view; // for those who wait until it is there
  } catch (error) {
    if (!signal.aborted) put(main, ...trouble(error));
  }
}

function setTitle(text) {
  title = text;
  document.title = `${text} – marl watch`;
}

function trouble(error) {
  console.error(error);
  if (error.status === 401) {
    const how = "Open the address that marl watch printed when it started: it ends with the token of this session.";
    return [h("h1", {}, "The token is missing"), h("p", { class: "message error" }, how)];
  }
  return [h("h1", {}, "That did not work"), h("p", { class: "message error", role: "alert" }, error.message)];
}

takeToken();
window.addEventListener("hashchange", show);
show();
