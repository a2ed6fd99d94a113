// SPDX-License-Identifier: Apache-2.0 OR MIT
// Two cursors on the time axis, and the time, TLPs and data between them. Also draws the lines of cursors,
// bookmarks and the selected record over the plot. Times are picoseconds since the first frame.

/** A cursor snaps to a record within this distance in CSS pixels. */
const SNAP_PX = 6;
const CURSORS = ["a", "b"];

/** Returns the position of a time in the current plot, in pixels from its left edge; NaN if the time is out of view or the
 *  plot has no time axis. */
function pixelOfTime(app, ps) {
  const layout = app.host._fullLayout;
  if (!app.time || !layout || app.host.hidden) return NaN;
  const { range, _length } = layout.xaxis;
  const x = ((app.time.toX(ps) - range[0]) / (range[1] - range[0])) * _length;
  return x >= 0 && x <= _length ? x : NaN;
}

/** Returns the time at a position in the plot, in pixels from its left edge. If a record is near, returns its time. */
function timeOfPixel(app, x) {
  const { range, _length } = app.host._fullLayout.xaxis;
  const free = app.time.toTime(range[0] + (x / _length) * (range[1] - range[0]));
  const row = rowNearTime(app, free);
  const near = row >= 0 && Math.abs(pixelOfTime(app, app.store.time[row]) - x) <= SNAP_PX;
  return near ? app.store.time[row] : Math.round(Math.min(Math.max(0, free), app.store.end));
}

/** Returns the row in the plot with the nearest time. */
function rowNearTime(app, time) {
  let [best, least] = [-1, Infinity];
  forRows(app.store, app.rows, (row) => {
    const distance = Math.abs(app.store.time[row] - time);
    if (distance < least && app.store.number[row] > 0) [least, best] = [distance, row];
  });
  return best;
}

/** Counts the rows between the cursors that pass the filter. */
function between(app, from, to) {
  const { store, headers } = app;
  let [tlps, bytes] = [0, 0];
  forRows(store, app.rows, (row) => {
    if (store.kind[row] !== KIND.tlp || store.time[row] < from || store.time[row] > to) return;
    tlps++;
    bytes += headers.payload(row);
  });
  return { tlps, bytes };
}

/** Returns the text about the cursors; empty without cursors. */
function cursorText(app) {
  const [a, b] = CURSORS.map((name) => app.cursors[name]);
  const at = (name, ps) => (Number.isNaN(ps) ? "" : `${name} ${timeText(ps, app.store.meta.digits)} µs`);
  const alone = [at("A", a), at("B", b)].filter(Boolean).join("   ");
  if (Number.isNaN(a) || Number.isNaN(b)) return alone;
  const span = Math.abs(b - a);
  const { tlps, bytes } = between(app, Math.min(a, b), Math.max(a, b));
  const rate = span > 0 && bytes > 0 ? `, ${rateText((bytes * 8 * 1e12) / span)} in both directions` : "";
  return `${alone}   B − A ${b < a ? "−" : ""}${duration(span)}: ${grouped(tlps)} TLPs, ${grouped(bytes)} B of data${rate}`;
}

/** Places a line over the plot at a time, or hides it if it is out of view. */
function placeLine(app, line, ps) {
  const x = pixelOfTime(app, ps);
  line.hidden = Number.isNaN(x);
  if (line.hidden) return;
  const { _size } = app.host._fullLayout;
  Object.assign(line.style, { left: `${_size.l + x}px`, top: `${_size.t}px`, height: `${_size.h}px` });
}

/** Places the lines of the selected record, the cursors and the bookmarks. */
function placeLines(app) {
  placeLine(app, byId("here"), app.selected < 0 ? NaN : app.store.time[app.selected]);
  for (const name of CURSORS) placeLine(app, byId(`cursor-${name}`), app.cursors[name]);
  const flags = [...app.marks.keys()].map((row) => {
    const flag = make("div", "flag");
    flag.title = app.marks.get(row) || `Frame ${app.store.number[row]}`;
    placeLine(app, flag, app.store.time[row]);
    return flag;
  });
  byId("flags").replaceChildren(...flags);
}

/** Makes the lines of cursors draggable, and calls `moved(name, ps)`. */
function makeDraggable(app, moved) {
  for (const name of CURSORS) {
    const line = byId(`cursor-${name}`);
    line.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      event.stopPropagation();
      line.setPointerCapture(event.pointerId);
    });
    line.addEventListener("pointermove", (event) => {
      if (!line.hasPointerCapture(event.pointerId)) return;
      const { left } = app.host.getBoundingClientRect();
      const { xaxis, _size } = app.host._fullLayout;
      moved(name, timeOfPixel(app, Math.min(xaxis._length, Math.max(0, event.clientX - left - _size.l))));
    });
  }
}
