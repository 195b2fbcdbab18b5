// Elements without markup: every text goes in as text, so a name with tags in it is shown and never run.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element: h("button", {class: "wide", onclick: go}, "Go"). Children may be texts, elements, lists or null. */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element, the same way. */
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    set(element, name, value);
  }
  add(element, children);
  return element;
}

function set(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith("on")) {
    element.addEventListener(name.slice(2), value);
  } else if (name === "style") {
    // The page's policy forbids style attributes; properties of the element are no markup.
    for (const [property, wanted] of Object.entries(value)) element.style.setProperty(property, wanted);
  } else if (name === "value" || name === "checked" || name === "selected" || name === "disabled") {
    element[name] = value;
  } else {
    element.setAttribute(name, value === true ? "" : value);
  }
}

export function add(element, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/** The element with other children. */
export function put(element, ...children) {
  element.replaceChildren();
  return add(element, ...children);
}

/** A sentence for people who cannot see the page and for those who can: what has just happened. */
export function say(text, kind = "note") {
  const place = document.getElementById("messages");
  const line = h("p", { class: `message ${kind}` }, text);
  place.append(line);
  // Errors stay until they are clicked away: they say what to do.
  const close = () => line.remove();
  line.append(h("button", { class: "close", "aria-label": "Close this message", onclick: close }, "×"));
  if (kind !== "error") setTimeout(close, 6000);
}
