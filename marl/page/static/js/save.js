// Pictures and views as files: SVG, PNG, and one HTML file that needs no server.

import { savedFile, savedPage } from "marl/api.js";
import { h, s, say } from "marl/dom.js";

const SVG = "http://www.w3.org/2000/svg";

/** Properties that a drawing gets from the page's styles and has to carry along when it leaves the page. */
const CARRIED = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin",
  "stroke-opacity", "opacity", "paint-order", "color", "font-family", "font-size", "font-style", "font-weight",
  "text-anchor", "dominant-baseline", "visibility", "display",
];

export function download(content, name) {
  const address = URL.createObjectURL(content);
  const link = h("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** The drawing as a file of its own: with its colours, on the page's ground. */
export function svgText(svg) {
  const copy = svg.cloneNode(true);
  const originals = [svg, ...svg.querySelectorAll("*")];
  const copies = [copy, ...copy.querySelectorAll("*")];
  originals.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of CARRIED) copies[i].style.setProperty(name, style.getPropertyValue(name));
  });
  const { width, height } = svg.getBoundingClientRect();
  copy.setAttribute("xmlns", SVG);
  copy.setAttribute("width", Math.round(width));
  copy.setAttribute("height", Math.round(height));
  // An element, because programs other than browsers know no background of a drawing.
  const { x, y } = svg.viewBox.baseVal ?? { x: 0, y: 0 };
  copy.prepend(s("rect", { x, y, width: "100%", height: "100%", fill: ground() }));
  return new XMLSerializer().serializeToString(copy);
}

function ground() {
  return getComputedStyle(document.documentElement).backgroundColor;
}

export function saveSvg(svg, name) {
  download(new Blob([svgText(svg)], { type: "image/svg+xml" }), `${name}.svg`);
}

/** Of a canvas or an image, or of a drawing, of which a picture with twice the dots is made. */
export async function savePng(element, name) {
  const canvas = await painted(element);
  const content = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  download(content, `${name}.png`);
}

async function painted(element) {
  const { picture, width, height } = await dots(element);
  const canvas = h("canvas", { width, height });
  const pen = canvas.getContext("2d");
  // A canvas of the page is drawn upon the page's ground, which it does not hold itself.
  pen.fillStyle = ground();
  pen.fillRect(0, 0, width, height);
  pen.drawImage(picture, 0, 0, width, height);
  return canvas;
}

async function dots(element) {
  if (element instanceof HTMLCanvasElement) return { picture: element, width: element.width, height: element.height };
  if (element instanceof HTMLImageElement) {
    return { picture: element, width: element.naturalWidth, height: element.naturalHeight };
  }
  const { width, height } = element.getBoundingClientRect();
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText(element))}`;
  await picture.decode();
  return { picture, width: Math.round(2 * width), height: Math.round(2 * height) };
}

/** Buttons for a picture: `find` gives it at the moment of the click, or an element that has it inside. */
export function pictureButtons(find, name) {
  const save = (how) => async () => {
    const picture = pictureIn(find());
    try {
      if (picture === null) throw new Error("There is no picture here now.");
      await how(picture, name);
    } catch (error) {
      say(error.message, "error");
    }
  };
  const found = pictureIn(find());
  const isDrawing = found === null || found instanceof SVGSVGElement;
  return h(
    "span", { class: "picture-buttons", role: "group", "aria-label": "Save this picture" },
    isDrawing ? h("button", { class: "small", type: "button", onclick: save(saveSvg) }, "SVG") : null,
    h("button", { class: "small", type: "button", onclick: save(savePng) }, "PNG"),
  );
}

function pictureIn(element) {
  if (element === null || element === undefined) return null;
  return element.matches("svg, canvas, img") ? element : element.querySelector("svg, canvas, img");
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
  const hint = "One HTML file that needs no server";
  return h("button", { id: "save-view", class: "small", title: hint, onclick: save }, "Save view");
}
