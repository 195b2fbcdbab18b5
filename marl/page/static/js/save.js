// Pictures and views as files: SVG, PNG, and one HTML file that needs no server.

import { savedFile, savedPage } from "marl/api.js";
import { h, say } from "marl/dom.js";

/** Properties that a drawing gets from the page's styles and has to carry along when it leaves the page. */
const CARRIED = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "opacity", "font-family",
  "font-size", "font-weight", "text-anchor", "dominant-baseline", "visibility", "display",
];

export function download(content, name) {
  const address = URL.createObjectURL(content);
  const link = h("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** The drawing as a file of its own: with its colours, on a ground. */
export function svgText(svg) {
  const copy = svg.cloneNode(true);
  const originals = [svg, ...svg.querySelectorAll("*")];
  const copies = [copy, ...copy.querySelectorAll("*")];
  originals.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of CARRIED) copies[i].style.setProperty(name, style.getPropertyValue(name));
  });
  const { width, height } = svg.getBoundingClientRect();
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.style.background = getComputedStyle(document.body).backgroundColor;
  return new XMLSerializer().serializeToString(copy);
}

export function saveSvg(svg, name) {
  download(new Blob([svgText(svg)], { type: "image/svg+xml" }), `${name}.svg`);
}

/** A canvas, or a drawing of which a picture with twice the dots is made. */
export async function savePng(element, name) {
  const canvas = element instanceof HTMLCanvasElement ? element : await painted(element);
  const content = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  download(content, `${name}.png`);
}

async function painted(svg) {
  const { width, height } = svg.getBoundingClientRect();
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText(svg))}`;
  await picture.decode();
  const canvas = h("canvas", { width: Math.round(2 * width), height: Math.round(2 * height) });
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  return canvas;
}

/** Buttons for a picture: `find` gives the SVG or canvas at the moment of the click. */
export function pictureButtons(find, name) {
  const buttons = h("span", { class: "picture-buttons", role: "group", "aria-label": "Save this picture" });
  const isDrawing = !(find() instanceof HTMLCanvasElement);
  if (isDrawing) buttons.append(h("button", { class: "small", onclick: () => saveSvg(find(), name) }, "SVG"));
  buttons.append(h("button", { class: "small", onclick: () => savePng(find(), name) }, "PNG"));
  return buttons;
}

/** The button that saves the view as one HTML file; null in such a file. */
export function viewButton(title) {
  if (savedPage() !== null) return null;
  const save = async () => {
    try {
      const name = title().replace(/[^\w.-]+/g, "_").slice(0, 80) || "view";
      download(await savedFile(title()), `${name}.html`);
    } catch (error) {
      say(error.message, "error");
    }
  };
  return h("button", { id: "save-view", class: "small", title: "One HTML file that needs no server", onclick: save }, "Save view");
}
