// SPDX-License-Identifier: Apache-2.0 OR MIT
// Two cursors on the time axis, and what lies between them: time, TLPs, data. Also the lines over the plot: cursors,
// bookmarks and what is selected. Times are picoseconds since the first frame.

/** A cursor takes the time of a record that is so near, CSS pixels. */
const SNAP_PX = 6;
const CURSORS = ["a", "b"];

/** Where a time is in the plot that is drawn, pixels from its left; NaN where it is out of view or time is no axis. */
function pixelOfTime(app, ps) {
  const layout = app.host._fullLayout;
  if (!app.time || !layout || app.host.hidden) return NaN;
  const { range, _length } = layout.xaxis;
  const x = ((app.time.toX(ps) - range[0]) / (range[1] - range[0])) * _length;
  return x >= 0 && x <= _length ? x : NaN;
}

/** The time at a place in the plot, pixels from its left: that of a record where one is near. */
function timeOfPixel(app, x) {
  const { range, _length } = app.host._fullLayout.xaxis;
  const free = app.time.toTime(range[0] + (x / _length) * (range[1] - range[0]));
  const row = rowNearTime(app, free);
  const near = row >= 0 && Math.abs(pixelOfTime(app, app.store.time[row]) - x) <= SNAP_PX;
  return near ? app.store.time[row] : Math.round(Math.min(Math.max(0, free), app.store.end));
}

/** The row shown whose time is nearest. */
function rowNearTime(app, time) {
  let [best, least] = [-1, Infinity];
  forRows(app.store, app.rows, (row) => {
    const distance = Math.abs(app.store.time[row] - time);
    if (distance < least && app.store.number[row] > 0) [least, best] = [distance, row];
  });
  return best;
}

/** What cursors enclose, of the rows that the filter lets through. */
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

/** What is read off the cursors; empty where there is none. */
function cursorText(app) {
  const [a, b] = CURSORS.map((name) => app.cursors[name]);
  const at = (name, ps) => (Number.isNaN(ps) ? "" : `${name} ${timeText(ps, app.store.meta.digits)} µs`);
  const alone = [at("A", a), at("B", b)].filter(Boolean).join("   ");
  if (Number.isNaN(a) || Number.isNaN(b)) return alone;
  const span = Math.abs(b - a);
  const { tlps, bytes } = between(app, Math.min(a, b), Math.max(a, b));
  const rate = span > 0 && bytes > 0 ? `, ${rateText((bytes * 8 * 1e12) / span)} both ways` : "";
  return `${alone}   B − A ${b < a ? "−" : ""}${duration(span)}: ${grouped(tlps)} TLPs, ${grouped(bytes)} B of data${rate}`;
}

/** A line over the plot at a time, hidden out of view. */
function placeLine(app, line, ps) {
  const x = pixelOfTime(app, ps);
  line.hidden = Number.isNaN(x);
  if (line.hidden) return;
  const { _size } = app.host._fullLayout;
  Object.assign(line.style, { left: `${_size.l + x}px`, top: `${_size.t}px`, height: `${_size.h}px` });
}

/** Puts the lines of what is selected, of cursors and bookmarks where the plot has their times. */
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

/** Lets a cursor's line be dragged; `moved(name, ps)` hears of it. */
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
