// SPDX-License-Identifier: Apache-2.0 OR MIT
// The logic of the trace page: state, filter, plots and keys. The address after `#` has these values: `filter`,
// `select` (a frame number or `worst`), `tab`, `theme`, `list` (`transactions`), `sort` (a column, with `-` before
// it for descending order), `fold` (`on`, `off`), `a` and `b` (cursors, ps), `marks`. Makes no requests.

const app = {
  store: null,
  headers: null,
  /** Rows that pass the filter; null for all. */
  rows: null,
  /** Function that tells whether a transaction passes the filter; null if all do. */
  unitHolds: null,
  filterText: "",
  selected: -1,
  tab: "latency",
  /** `records` or `transactions`. `open` has the first row of each unfolded transaction. */
  mode: "records",
  open: new Set(),
  /** Sort order { key, down }; null for the order of the capture. */
  sort: null,
  /** Transactions that pass the filter, and the rows of the list in its order. */
  unitRows: null,
  /** Rows in the plots, if they differ from the records in the list. */
  plotRows: null,
  ordered: null,
  /** Lines of the list: their rows, their depths, and the place of each row; null for all rows without nesting. */
  shown: { rows: null, depths: null, places: null },
  /** Time range in view in ps; null for all. */
  range: null,
  timeline: PLAIN_TIME,
  /** The time axis of the current plot. */
  time: null,
  cursors: { a: NaN, b: NaN },
  /** Notes by row. */
  marks: new Map(),
  /** Position of the pointer in the plot in pixels; null outside the plot. */
  pointer: null,
  options: { log: false, tail: false, dataOnly: false, data: true, header: false, unacked: false },
  cloud: null,
  worst: [],
  pools: null,
  /** Resolves when the selected record and its data are visible. */
  details: null,
};
let pending = Promise.resolve();

/** Starts with the first chunk, and shows its rows while the browser still reads the page. */
function start() {
  const meta = JSON.parse(byId("meta").textContent);
  app.store = makeStore(meta);
  app.headers = makeHeaders(app.store);
  Object.assign(app, { host: byId("plot"), aside: byId("worst"), summary: byId("summary-view"), go, goToLatency, setFilter });
  app.list = makeList(byId("list"), listSource, clickInList);
  applyTheme(hashState().theme ?? "auto");
  showTitle(meta.title);
  showFilterHelp(meta.filter);
  makeTabs();
  showHead();
  listen();
  showSummary();
  const first = document.querySelector("script.chunk");
  pending = (first ? takeChunk(first) : Promise.resolve()).then(firstPaint);
}

/** Lists all fields and flags of the filter from the definitions of the capture crate. */
function showFilterHelp(fields) {
  const items = fields.flatMap(({ name, legal, what }) => [make("dt", "", name), make("dd", "", what, ...(legal ? [make("i", "", `: ${legal}`)] : []))]);
  byId("filter-help").replaceChildren(...items);
}

/** Shows the complete file name, and as much of its path as fits. */
function showTitle(path) {
  const at = Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\")) + 1;
  const name = at === path.length ? 0 : at;
  byId("title").replaceChildren(make("span", "folder", path.slice(0, name)), make("span", "name", path.slice(name)));
  byId("title").title = path;
}

async function takeChunk(element) {
  const bytes = await inflated(element.textContent).arrayBuffer();
  addChunk(app.store, new Uint8Array(bytes));
  mark.rows = String(app.store.count);
}

/** Sets column widths from the longest number (with the triangle of a transaction), the longest time and the link names. */
function fitColumns() {
  const { store } = app;
  const links = store.meta.interfaces.map((face) => (face.slot || String(face.link)).length);
  const room = {
    number: String(store.number[store.count - 1] ?? 0).length + 2,
    time: timeText(store.end, store.meta.digits).length,
    link: Math.min(Math.max(0, ...links), 12),
  };
  for (const [name, text] of Object.entries({ number: "Frame", time: "Time, µs", link: "Link" })) {
    byId("rows").style.setProperty(`--${name}`, String(Math.max(room[name], text.length) + 1));
  }
}

async function firstPaint() {
  fitColumns();
  layOut(app.list);
  await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
  mark.firstPaintMs = String(Math.round(performance.now()));
}

/** Continues when the page is loaded: reads the other chunks and the values of the address, then draws the plot. */
function loaded() {
  if (!app.store) start();
  pending = pending.then(async () => {
    for (const chunk of [...document.querySelectorAll("script.chunk")].slice(1)) {
      await takeChunk(chunk);
      showSummary();
    }
    fitColumns();
    layOut(app.list);
    showSummary();
    app.folded = foldedTime(app.store);
    mark.loadedMs = String(Math.round(performance.now()));
    await applyHash();
    mark.ready = "true";
  });
}

// Filter.

/** Sets the filter and updates list and plots. An invalid expression only shows an error. */
function setFilter(text) {
  const form = byId("filter");
  byId("expression").value = text;
  form.classList.remove("wrong");
  try {
    const fields = filterFields(app.store, app.headers);
    const isAll = text.trim() === "";
    const predicate = isAll ? null : parseFilter(text, fields);
    app.unitHolds = isAll ? null : parseFilter(text, fields, ofAnyTlp);
    app.rows = predicate && rowsWhere(app.store, predicate);
  } catch (error) {
    if (!(error instanceof FilterError)) throw error;
    form.classList.add("wrong");
    byId("filter-said").textContent = error.message;
    mark.filterError = error.message;
    return;
  }
  delete mark.filterError;
  app.filterText = text.trim();
  app.list.top = 0;
  arrange();
  showCount();
  saveHash();
  refresh();
}

/** Converts a term for rows to a term for transactions. It matches a transaction if it matches one of its TLPs that arrived.
 *  `replay` matches if a TLP was retransmitted. `error` also matches a transaction without all completions. */
function ofAnyTlp(holds, name) {
  const asWhole = { replay: (unit) => units().isRetried(unit), error: (unit) => units().hasFailed(unit) }[name];
  return (unit) => asWhole?.(unit) || units().tlps(unit).some((row) => !isLost(app.store, row) && holds(row));
}

/** Adds a time range to the filter, or replaces the time range in it. */
function filterToTimes(range) {
  const start = BigInt(app.store.meta.start_ps);
  const [from, to] = range.map((ps) => start + BigInt(Math.round(Math.max(0, ps))));
  const span = `timestamp=${secondsText(from)}s..${secondsText(to + 1n)}s`;
  const rest = app.filterText.replace(/(^| and )timestamp=[0-9.]+s\.\.[0-9.]+s$/, "");
  setFilter(rest === "" ? span : `${/ or /.test(rest) ? `(${rest})` : rest} and ${span}`);
}

// Plots.

function makeTabs() {
  const buttons = VIEWS.map((view, i) => {
    const button = make("button", "", view.name, make("kbd", "", String(i + 1)));
    Object.assign(button, { type: "button", id: `tab-${view.key}` });
    button.setAttribute("role", "tab");
    button.setAttribute("aria-controls", "plot-area");
    button.addEventListener("click", () => showTab(view.key));
    return button;
  });
  byId("tabs").replaceChildren(...buttons);
}

function showTab(key) {
  app.tab = VIEWS.some((view) => view.key === key) ? key : "latency";
  for (const view of VIEWS) byId(`tab-${view.key}`).setAttribute("aria-selected", String(view.key === app.tab));
  saveHash();
  return refresh();
}

function viewNow() {
  return VIEWS.find((view) => view.key === app.tab);
}

function tool(text, pressed, clicked) {
  const button = make("button", "", text);
  button.type = "button";
  if (pressed !== null) button.setAttribute("aria-pressed", String(pressed));
  button.addEventListener("click", clicked);
  return button;
}

function showTools() {
  const view = viewNow();
  const tools = view.options.map(([name, text]) => tool(text, app.options[name], () => {
    if (view.oneOf) for (const [other] of view.options) app.options[other] = false;
    app.options[name] = view.oneOf || !app.options[name];
    refresh();
  }));
  if (view.timed && app.folded.folds.length > 0) tools.push(tool("Fold idle", isFolded(), toggleFolds));
  if (view.timed && app.range) {
    tools.push(tool("Whole time", null, () => setRange(null)), tool("Filter to this time", null, () => filterToTimes(app.range)));
  }
  byId("tools").replaceChildren(...tools);
}

/** Redraws the current plot. Calls during a redraw are combined. */
let drawing = null;
let again = false;
function refresh() {
  if (byId("plots").offsetParent === null || !app.store || mark.loadedMs === undefined) return Promise.resolve();
  again = true;
  drawing ??= (async () => {
    while (again) {
      again = false;
      await drawNow();
    }
  })().finally(() => (drawing = null));
  return drawing;
}

async function drawNow() {
  const view = viewNow();
  showTools();
  const isSummary = view.key === "summary";
  app.host.hidden = isSummary;
  app.summary.hidden = !isSummary;
  app.cloud = null;
  if (view.key !== "latency" && view.key !== "cdf") app.aside.replaceChildren();
  const note = await view.draw(app);
  showNote(view, plotRows()?.length === 0 ? nothing(`The filter keeps no ${app.mode === "records" ? "record" : "transaction"}.`) : note);
  listenToPlot();
  placeLines(app);
  mark.drawn = view.key;
  mark.drawnMs = String(Math.round(performance.now()));
}

/** Shows a note below the plot, or in large text if the plot is empty. */
function showNote(view, note) {
  const { text = note, how = "" } = note;
  const isEmpty = text !== note;
  byId("plot-note").textContent = isEmpty ? "" : note;
  byId("nothing").hidden = !isEmpty;
  byId("nothing").replaceChildren(make("p", "", isEmpty ? text : ""), ...(how ? [make("code", "", how)] : []));
  app.host.classList.toggle("empty", isEmpty);
  app.host.setAttribute("aria-label", `${view.name}. ${text}`);
}

function setRange(range) {
  app.range = range;
  return refresh();
}

/** Returns whether long idle times are folded. */
function isFolded() {
  return app.timeline === app.folded;
}

function toggleFolds() {
  app.timeline = isFolded() ? PLAIN_TIME : app.folded;
  saveHash();
  return refresh();
}

// Cursors and bookmarks.

/** Sets a cursor to a time; NaN removes it. */
function setCursor(name, ps) {
  app.cursors[name] = ps;
  showCursors();
  saveHash();
}

/** Sets a cursor to the pointer if that is in a plot over time, otherwise to the selected record. */
function putCursor(name) {
  if (app.pointer && viewNow().timed) setCursor(name, timeOfPixel(app, app.pointer.x));
  else if (app.selected >= 0) setCursor(name, app.store.time[app.selected]);
}

function showCursors() {
  const text = cursorText(app);
  byId("cursor-text").textContent = text;
  byId("cursor-clear").hidden = text === "";
  byId("cursor-filter").hidden = CURSORS.some((name) => Number.isNaN(app.cursors[name]));
  placeLines(app);
  layOut(app.list);
}

function clearCursors() {
  for (const name of CURSORS) app.cursors[name] = NaN;
  showCursors();
  saveHash();
}

/** Marks a row with a note; null removes the mark. */
function setMark(row, note) {
  if (row < 0 || (!app.marks.has(row) && app.marks.size === MAX_MARKS)) return;
  if (note === null) app.marks.delete(row);
  else app.marks.set(row, note);
  app.marks = sortedMarks(app.marks);
  showBookmarks();
  saveHash();
}

function showBookmarks() {
  byId("marks").querySelector("summary").textContent = `Bookmarks${app.marks.size > 0 ? ` (${app.marks.size})` : ""}`;
  showMarks(app, byId("marks").querySelector("ul"), setMark);
  placeLines(app);
  layOut(app.list);
}

// Theme, keys, address.

function switchTheme() {
  nextTheme();
  saveHash();
  refresh();
}

const KEYS = {
  ArrowDown: () => move(1),
  ArrowUp: () => move(-1),
  PageDown: () => move(visibleRows(app.list)),
  PageUp: () => move(-visibleRows(app.list)),
  Home: () => move(-Infinity),
  End: () => move(Infinity),
  ArrowRight: () => toggleUnit(app.list.selected, true),
  ArrowLeft: () => toggleUnit(app.list.selected, false),
  Enter: () => toggleUnit(app.list.selected),
  r: () => setMode(app.mode === "records" ? "transactions" : "records"),
  j: () => moveInTransaction(1),
  k: () => moveInTransaction(-1),
  w: goToWorst,
  e: () => goToNext(isWrong),
  v: goToViolation,
  a: () => putCursor("a"),
  b: () => putCursor("b"),
  x: clearCursors,
  m: () => setMark(app.selected, app.marks.has(app.selected) ? null : ""),
  n: () => go(nextMark(app, app.selected, 1)),
  p: () => go(nextMark(app, app.selected, -1)),
  f: toggleFolds,
  g: togglePlots,
  t: switchTheme,
  0: () => setRange(null),
  "/": () => byId("expression").select(),
  "?": () => byId("help").showModal(),
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
  if (event.target === byId("expression")) {
    if (event.key === "Enter") {
      setFilter(byId("expression").value);
      // An invalid expression keeps the focus for correction. Otherwise keys are shortcuts again.
      if (mark.filterError === undefined) byId("list").focus();
    }
    if (event.key === "Escape") {
      setFilter("");
      byId("list").focus();
    }
    if (event.key === "ArrowDown") select(rowAt(app.list.top));
    return;
  }
  if (event.target.closest("input, summary") || (event.target.closest("button") && event.key === "Enter")) return;
  const view = VIEWS[Number(event.key) - 1];
  const action = view ? () => showTab(view.key) : KEYS[event.key];
  if (!action) return;
  event.preventDefault();
  action();
}

function togglePlots() {
  document.querySelector("main").classList.toggle("noplots");
  layOut(app.list);
  refresh();
}

/** Redraws the plot if its size has changed, because a panel next to it has appeared or disappeared. */
function onPlotSize() {
  const layout = app.host._fullLayout;
  if (layout && (layout.width !== app.host.clientWidth || layout.height !== app.host.clientHeight)) refresh();
}

function listen() {
  byId("help-close").addEventListener("click", () => byId("help").close());
  byId("expression").addEventListener("search", () => setFilter(byId("expression").value));
  for (const name of ["records", "transactions"]) byId(`mode-${name}`).addEventListener("click", () => setMode(name));
  byId("unfold-all").addEventListener("click", toggleAll);
  byId("cursor-clear").addEventListener("click", clearCursors);
  byId("cursor-filter").addEventListener("click", () => filterToTimes(CURSORS.map((name) => app.cursors[name]).sort((a, b) => a - b)));
  makeDraggable(app, setCursor);
  byId("theme").addEventListener("click", switchTheme);
  byId("help-open").addEventListener("click", () => byId("help").showModal());
  document.addEventListener("keydown", onKey);
  byId("plot-area").addEventListener("pointermove", hover);
  byId("plot-area").addEventListener("pointerleave", leavePlot);
  // Waits for the next frame, because drawing may resize other panels.
  new ResizeObserver(() => requestAnimationFrame(onPlotSize)).observe(app.host);
  window.addEventListener("hashchange", () => applyHash());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => refresh());
}

/** The last address that the page has read or written. The page does not read its own changes. */
let hashWritten = null;

async function applyHash() {
  if (location.hash === hashWritten) return;
  hashWritten = null;
  const state = hashState();
  const time = (text) => (/^\d+$/.test(text ?? "") ? Number(text) : NaN);
  if (state.theme) applyTheme(state.theme);
  app.tab = state.tab ?? app.tab;
  app.sort = sortFrom(state.sort ?? "");
  app.cursors = { a: time(state.a), b: time(state.b) };
  app.marks = marksFrom(app.store, state.marks ?? "");
  app.timeline = (state.fold ? state.fold === "on" : app.folded.most) ? app.folded : PLAIN_TIME;
  setMode(state.list);
  setFilter(state.filter ?? "");
  showCursors();
  showBookmarks();
  await showTab(app.tab);
  if (state.select === "worst") goToWorst();
  else if (state.select) go(app.store.number.indexOf(Number(state.select)));
  hashWritten = location.hash;
  saveHash();
}

/** Writes the state of the page to the address, without default values. */
function saveHash() {
  if (hashWritten === null) return;
  const state = {
    filter: app.filterText,
    select: app.selected >= 0 ? String(app.store.number[app.selected]) : "",
    tab: app.tab === "latency" ? "" : app.tab,
    theme: themeNow === "auto" ? "" : themeNow,
    list: app.mode === "records" ? "" : app.mode,
    sort: app.sort ? `${app.sort.down ? "-" : ""}${app.sort.key}` : "",
    fold: isFolded() === app.folded.most ? "" : isFolded() ? "on" : "off",
    a: Number.isNaN(app.cursors.a) ? "" : String(app.cursors.a),
    b: Number.isNaN(app.cursors.b) ? "" : String(app.cursors.b),
    marks: marksText(app),
  };
  const text = Object.entries(state).filter(([, value]) => value !== "").map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  try {
    history.replaceState(null, "", `#${text.join("&")}`);
  } catch (error) {
    // A sandboxed frame (opaque origin) may not change its URL.
    if (error.name !== "SecurityError") throw error;
  }
  hashWritten = location.hash;
}

function showSummary() {
  const { store } = app;
  const { hidden, violations } = store.meta;
  const parts = [`${grouped(store.total)} records over ${duration(store.end)}`];
  if (store.count < store.total) parts.push(`${Math.floor((100 * store.count) / store.total)} % read`);
  if (hidden > 0) parts.push(`${grouped(hidden)} more are not in this page`);
  if (violations.count > 0) parts.push(`${grouped(violations.count)} violation${violations.count === 1 ? "" : "s"} (v)`);
  byId("summary").textContent = parts.join("; ");
}

/** Interface for other scripts and for tests. */
const interfaceOfPage = {
  start,
  loaded,
  app,
  select: (number) => go(app.store.number.indexOf(number)),
  setFilter,
  setMode,
  showTab,
  setRange,
  units,
  /** The fields of the filter, by name. */
  fields: () => filterFields(app.store, app.headers),
  /** Returns the meaning of a row; empty if it is unknown. */
  means: (row) => meaningOf(app.store, row),
  /** Returns the position of a time in the plot, in pixels from its left edge; NaN if the time is out of view. */
  pixelOf: (ps) => pixelOfTime(app, ps),
  /** Returns a promise of a row's data bytes in the page. */
  payload: (row) => payloadOf(app.store, row),
  /** Resolves when all data is read and drawn. */
  idle: async () => {
    await pending;
    await refresh();
    await app.details;
  },
};
