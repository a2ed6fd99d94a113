// SPDX-License-Identifier: Apache-2.0 OR MIT
// Parallel coordinates on a canvas. Dragging along an axis selects a range, and a click removes it. Never changes
// the data.

const PARALLEL = { height: 420, top: 46, bottom: 30, side: 70, least: 110, grip: 26, shortest: 4 };
/** Colours of the smallest and largest value of the colour axis, which colour-blind readers can distinguish. Other values are in
 *  between. */
const LOW_COLOUR = [0, 114, 178];
const HIGH_COLOUR = [230, 120, 0];

/** Returns the position of a value on its axis: 0 at the bottom, 1 at the top. */
function shareOf(coordinate, value) {
  const { low, high, log } = coordinate;
  if (high === low) return 0.5;
  return log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
}

/** Returns an axis with its ends. A logarithmic axis uses only values above 0. */
function coordinateOf(axisOf) {
  const { values, names } = axisOf;
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
  if (names.length > 0) [low, high] = [0, names.length - 1];
  return { ...axisOf, low, high, log: axisOf.scale !== "linear" && low > 0 };
}

/** Returns the values of the ticks of an axis. */
function ticksOf(coordinate) {
  const { low, high, log, values, names } = coordinate;
  if (names.length > 0) return names.map((_, at) => at);
  const distinct = [...new Set(values)].sort((a, b) => a - b);
  if (distinct.length <= 9) return distinct;
  return Array.from({ length: 5 }, (_, i) => (log ? low * (high / low) ** (i / 4) : low + ((high - low) * i) / 4));
}

function tickText(coordinate, value) {
  if (coordinate.names.length > 0) return coordinate.names[value];
  return coordinate.scale === "bytes" ? bytesText(Math.round(value)) : String(Number(value.toPrecision(4)));
}

/** Returns the canvas of a figure's coordinates, with the number of selected lines. */
function parallelBox(figure) {
  const canvas = document.createElement("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${figure.title}: ${figure.parallel.axes.map(({ label }) => label).join(", ")}`);
  const count = make("p", "");
  const box = make("div", "parallel", canvas, count);
  const state = { box, canvas, count, axes: figure.parallel.axes.map(coordinateOf), colour: figure.parallel.colour, chosen: new Map(), drag: null };
  app.parallels.push(state);
  listenToDrags(state);
  return box;
}

/** Returns whether a row is within the selected range on every axis. */
function isChosen({ axes, chosen }, row) {
  for (const [at, [from, to]] of chosen) {
    const share = shareOf(axes[at], axes[at].values[row]);
    if (share < from || share > to) return false;
  }
  return true;
}

function tint(share, alpha) {
  const [r, g, b] = LOW_COLOUR.map((low, i) => Math.round(low + (HIGH_COLOUR[i] - low) * share));
  return `rgba(${r}, ${g}, ${b}, ${alpha})`;
}

function placeOf(state, at) {
  const { side } = PARALLEL;
  return state.axes.length < 2 ? state.width / 2 : side + ((state.width - 2 * side) * at) / (state.axes.length - 1);
}

function heightOf(share) {
  const { height, top, bottom } = PARALLEL;
  return height - bottom - share * (height - top - bottom);
}

function drawParallel(state) {
  const { canvas, box, axes } = state;
  const scale = window.devicePixelRatio || 1;
  state.width = Math.max(box.clientWidth - 10, PARALLEL.least * axes.length);
  canvas.width = state.width * scale;
  canvas.height = PARALLEL.height * scale;
  canvas.style.width = `${state.width}px`;
  canvas.style.height = `${PARALLEL.height}px`;
  const to = canvas.getContext("2d");
  to.scale(scale, scale);
  to.clearRect(0, 0, state.width, PARALLEL.height);
  const rows = axes[0]?.values.length ?? 0;
  const within = Array.from({ length: rows }, (_, row) => isChosen(state, row));
  const lines = within.filter(Boolean).length;
  const alpha = Math.max(0.06, Math.min(0.8, 60 / Math.max(1, lines)));
  // Lines outside the selection are drawn first, below the others.
  within.forEach((is, row) => is || drawLine(to, state, row, colour("grid")));
  within.forEach((is, row) => is && drawLine(to, state, row, tint(shareOf(axes[state.colour], axes[state.colour].values[row]), alpha)));
  axes.forEach((_, at) => drawCoordinate(to, state, at));
  state.lines = lines;
  state.count.textContent = `${lines} of ${rows} points. Colour: ${axes[state.colour]?.label ?? ""}. Drag along an axis to select a range; click it to remove the selection.`;
}

function drawLine(to, state, row, style) {
  to.strokeStyle = style;
  to.lineWidth = 1;
  to.beginPath();
  state.axes.forEach((coordinate, at) => to.lineTo(placeOf(state, at), heightOf(shareOf(coordinate, coordinate.values[row]))));
  to.stroke();
}

function drawCoordinate(to, state, at) {
  const [coordinate, x] = [state.axes[at], placeOf(state, at)];
  to.strokeStyle = colour("soft");
  to.fillStyle = colour("ink");
  to.lineWidth = 1;
  to.beginPath();
  to.moveTo(x, heightOf(0));
  to.lineTo(x, heightOf(1));
  to.stroke();
  to.font = "11px system-ui, DejaVu Sans, sans-serif";
  to.textAlign = "center";
  // Labels are long keys that differ in their last parts.
  const words = coordinate.label.split(".");
  const room = Math.max(12, Math.floor(placeOf(state, 1) - placeOf(state, 0)) / 6.5);
  const shorten = (text) => (text.length > room ? `\u2026${text.slice(1 - room)}` : text);
  to.fillText(shorten(words.slice(0, -1).join(".")), x, 14);
  to.fillText(shorten(words.at(-1)), x, 28);
  to.textAlign = "left";
  for (const value of ticksOf(coordinate)) {
    const y = heightOf(shareOf(coordinate, value));
    const text = tickText(coordinate, value);
    to.fillStyle = colour("ground");
    to.globalAlpha = 0.7;
    to.fillRect(x + 5, y - 7, to.measureText(text).width + 2, 13);
    to.globalAlpha = 1;
    to.fillStyle = colour("ink");
    to.fillRect(x - 3, y - 0.5, 6, 1);
    to.fillText(text, x + 6, y + 4);
  }
  const part = state.chosen.get(at);
  if (!part) return;
  to.fillStyle = colour("accent");
  to.globalAlpha = 0.3;
  to.fillRect(x - 6, heightOf(part[1]), 12, heightOf(part[0]) - heightOf(part[1]));
  to.globalAlpha = 1;
}

/** Returns the axis at a position of the canvas, and the position along this axis. */
function gripAt(state, event) {
  const { left, top } = state.canvas.getBoundingClientRect();
  const at = state.axes.findIndex((_, n) => Math.abs(placeOf(state, n) - (event.clientX - left)) <= PARALLEL.grip);
  const { height, top: above, bottom } = PARALLEL;
  const share = (height - bottom - (event.clientY - top)) / (height - above - bottom);
  return { at, share: Math.max(-0.02, Math.min(1.02, share)) };
}

function listenToDrags(state) {
  const { canvas } = state;
  canvas.addEventListener("pointerdown", (event) => {
    const { at, share } = gripAt(state, event);
    if (at < 0) return;
    state.drag = { at, from: share, y: event.clientY };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!state.drag) return;
    const { share } = gripAt(state, event);
    const { at, from } = state.drag;
    state.chosen.set(at, [Math.min(from, share), Math.max(from, share)]);
    drawParallel(state);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (state.drag && Math.abs(event.clientY - state.drag.y) < PARALLEL.shortest) state.chosen.delete(state.drag.at);
    state.drag = null;
    drawParallel(state);
  });
}
