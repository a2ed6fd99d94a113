// SPDX-License-Identifier: Apache-2.0 OR MIT
// The pointer in the plots: zoom, clicks, and the text under the pointer.

let listening = false;
function listenToPlot() {
  if (listening || !app.host.on) return;
  listening = true;
  app.host.on("plotly_relayout", (change) => {
    if (!viewNow().timed) return;
    const [from, to] = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
    if (from !== undefined) setRange([app.time.toTime(from), app.time.toTime(to)]);
  });
  app.host.on("plotly_doubleclick", () => {
    if (viewNow().timed) setRange(null);
  });
  onPlainClick(app.host, clickInPlot);
}

/** Handles a click in a plot: selects the nearest point, or without a near point the packet with the nearest time. */
function clickInPlot(event) {
  const at = placeInPlot(app.host, event);
  if (!at || app.host.hidden) return;
  if (app.cloud) {
    const near = nearestPoint(app.host, app.cloud.groups, app.cloud.scale, at.x, at.y, 12);
    if (near) go(near.row);
  } else if (viewNow().timed) {
    go(rowNearTime(app, timeOfPixel(app, at.x)));
  }
}

let hovering = false;
function hover(event) {
  app.pointer = app.host.contains(event.target) ? placeInPlot(app.host, event) : null;
  if (hovering) return;
  hovering = true;
  requestAnimationFrame(() => {
    hovering = false;
    showTip(event);
  });
}

function leavePlot() {
  app.pointer = null;
  byId("tip").hidden = true;
}

function showTip(event) {
  const tip = byId("tip");
  const at = app.pointer;
  const text = at && (app.cloud ? pointText(at) : viewNow().timed ? linesText(at) : "");
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - 260)}px`;
  tip.style.top = `${event.clientY + 14}px`;
}

/** Returns the text about the point under the pointer; empty without a point. */
function pointText(at) {
  const near = nearestPoint(app.host, app.cloud.groups, app.cloud.scale, at.x, at.y, 10);
  return near ? tipText(near.row) : "";
}

function tipText(row) {
  const cells = cellsOf(app.store, app.headers, row, -1);
  const latency = app.store.response[row] >= 0 ? `\nanswered after ${duration(app.store.response[row])}` : "";
  return `frame ${cells.number}: ${cells.type} ${cells.requester}${cells.tag ? `, tag ${cells.tag}` : ""}\n${cells.info}\nat ${cells.time} µs${latency}`;
}

/** Returns the time under the pointer, and the values of the plot's lines at that time. */
function linesText(at) {
  const { xaxis, _size } = app.host._fullLayout;
  const x = xaxis.range[0] + (at.x / xaxis._length) * (xaxis.range[1] - xaxis.range[0]);
  const isHere = (trace) => {
    const { _offset, _length } = facetAxis(app.host, Number((trace.yaxis ?? "y").slice(1) || 1) - 1);
    return at.y >= _offset - _size.t && at.y <= _offset - _size.t + _length;
  };
  const lines = (app.host.data ?? []).filter((trace) => trace.meta && isHere(trace)).map((trace) => {
    const i = lowerBound(trace.x, x);
    const value = trace.y[trace.x[i] === x ? i : i - 1];
    return value === undefined ? "" : `${trace.name}: ${grouped(Math.trunc(value))}${trimmed(value % 1, 3).replace(/^-?0/, "")}${trace.meta.unit}`;
  });
  const shown = lines.filter(Boolean);
  return shown.length > 0 ? [`at ${timeText(app.time.toTime(x), app.store.meta.digits)} µs`, ...shown].join("\n") : "";
}
