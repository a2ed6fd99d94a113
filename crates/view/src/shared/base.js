// SPDX-License-Identifier: Apache-2.0 OR MIT
// Common code of all pages: elements, a count of errors, light and dark themes, the address after `#`, and the packed
// plotly.js. Makes no requests.

const byId = (id) => document.getElementById(id);
const mark = document.documentElement.dataset;
mark.errors = "0";
window.addEventListener("error", () => (mark.errors = String(Number(mark.errors) + 1)));
window.addEventListener("unhandledrejection", () => (mark.errors = String(Number(mark.errors) + 1)));
document.addEventListener("securitypolicyviolation", () => (mark.errors = String(Number(mark.errors) + 1)));

/** Returns a new element with a class, and with children or text. */
function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

/** Decodes base64 text to bytes. */
function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** Returns a response that inflates base64 text. */
function inflated(text) {
  const stream = new Blob([fromBase64(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream);
}

let plotlyLoading = null;

/** Loads plotly.js, which is in this page in packed form. */
function loadPlotly() {
  plotlyLoading ??= (async () => {
    const script = document.createElement("script");
    script.textContent = await inflated(document.getElementById("plotly").textContent).text();
    document.head.append(script);
    return window.Plotly;
  })();
  return plotlyLoading;
}

/** Returns a colour of the style sheet. */
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Returns an axis of a plot in the colours of the theme. */
function axis(title, more = {}) {
  return {
    title: { text: title, font: { size: 12 }, standoff: 8 },
    gridcolor: colour("grid"),
    linecolor: colour("line"),
    zerolinecolor: colour("line"),
    tickfont: { size: 11 },
    exponentformat: "none",
    automargin: false,
    ...more,
  };
}

/** `light`, `dark`, or `auto` for the system's theme. */
let themeNow = "auto";

function applyTheme(theme) {
  themeNow = ["light", "dark"].includes(theme) ? theme : "auto";
  mark.theme = themeNow;
  byId("theme").textContent = { auto: "Auto", light: "Light", dark: "Dark" }[themeNow];
}

/** Switches to the next theme. The first switch gives the theme that differs from the system's. */
function nextTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const order = dark ? { auto: "light", light: "dark", dark: "auto" } : { auto: "dark", dark: "light", light: "auto" };
  applyTheme(order[themeNow]);
}

/** Returns the values in the address by name. */
function hashState() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1).replace(/\+/g, "%2B")));
}
