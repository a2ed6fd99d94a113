// SPDX-License-Identifier: Apache-2.0 OR MIT
// The page at work: state, keys, links between list and plots, and what stands in the address after `#`:
// `filter`, `select` (a frame number or `worst`), `tab`, `theme`. Never asks for anything outside the page.

const app = {
  store: null,
  headers: null,
  /** Rows that the filter lets through; null for all. */
  rows: null,
  filterText: "",
  selected: -1,
  tab: "latency",
  range: null,
  options: { log: false, tail: false, dataOnly: false, data: true, header: false, unacked: false },
  cloud: null,
  worst: [],
  pools: null,
  /** Resolves when what is selected is shown with its data. */
  details: null,
};
let pending = Promise.resolve();

/** Begins with the first chunk: shows its rows while the page is still read. */
function start() {
  const meta = JSON.parse(byId("meta").textContent);
  app.store = makeStore(meta);
  app.headers = makeHeaders(app.store);
  Object.assign(app, { host: byId("plot"), aside: byId("worst"), summary: byId("summary-view"), go, goToLatency, setFilter });
  app.list = makeList(byId("list"), listSource, (place) => select(rowAt(place), false));
  applyTheme(hashState().theme ?? "auto");
  showTitle(meta.title);
  makeTabs();
  listen();
  showSummary();
  const first = document.querySelector("script.chunk");
  pending = (first ? takeChunk(first) : Promise.resolve()).then(firstPaint);
}

/** The file's name whole; of the folders before it what there is room for. */
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

/** Makes room for the longest number and time. */
function fitColumns() {
  const { store } = app;
  const room = { number: String(store.number[store.count - 1] ?? 0).length, time: timeText(store.end, store.meta.digits).length };
  for (const [name, text] of Object.entries({ number: "Frame", time: "Time, µs" })) {
    byId("rows").style.setProperty(`--${name}`, String(Math.max(room[name], text.length) + 1));
  }
}

async function firstPaint() {
  fitColumns();
  layOut(app.list);
  await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
  mark.firstPaintMs = String(Math.round(performance.now()));
}

/** Goes on when all of the page is there: the other chunks, then what the address asks for, then the plot. */
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
    mark.loadedMs = String(Math.round(performance.now()));
    await applyHash();
    mark.ready = "true";
  });
}

// The list.

const listSource = {
  count: () => (app.rows ? app.rows.length : app.store.count),
  cells: (place) => cellsOf(app.store, app.headers, rowAt(place), place > 0 ? rowAt(place - 1) : -1),
  kind: (place) => rowKind(rowAt(place)),
  tint: (place) => app.headers.tint(rowAt(place)),
};

function rowKind(row) {
  const request = app.selected >= 0 ? requestOf(app.store, app.selected) : -1;
  const same = request >= 0 && requestOf(app.store, row) === request ? " same" : "";
  const failed = isError(app.store, app.headers, row) ? " failed" : "";
  return app.headers.className(row) + same + failed;
}

function rowAt(place) {
  return app.rows ? app.rows[place] : place;
}

/** The place of a row in the list; of one that is filtered out, that of the next one, if `near`. */
function placeOf(row, near) {
  if (!app.rows) return row;
  const place = lowerBound(app.rows, row);
  return near || app.rows[place] === row ? Math.min(place, app.rows.length - 1) : -1;
}

// Selection.

/** Selects a row: list, details, and where it is in the plot. */
function select(row, focus = true) {
  app.selected = row;
  mark.selected = row >= 0 ? String(app.store.number[row]) : "";
  selectPlace(app.list, row >= 0 ? placeOf(row, false) : -1);
  if (row >= 0) app.details = showDetails(byId("details"), app.store, app.headers, row, go);
  for (const button of app.aside.querySelectorAll("button[data-row]")) {
    button.className = Number(button.dataset.row) === row ? "current" : "";
  }
  markSelected();
  if (focus) byId("list").focus({ preventScroll: true });
}

/** Goes to a row from elsewhere: a filter that hides it is cleared. */
function go(row) {
  if (row < 0) return;
  if (placeOf(row, false) < 0) setFilter("");
  select(row);
}

function move(step) {
  const count = listSource.count();
  if (count === 0) return;
  const at = app.selected < 0 ? app.list.top - Math.sign(step) : placeOf(app.selected, true);
  select(rowAt(Math.min(count - 1, Math.max(0, at + step))));
}

/** The next or previous packet of the transaction that is selected. */
function moveInTransaction(step) {
  const request = app.selected >= 0 ? requestOf(app.store, app.selected) : -1;
  if (request < 0) return;
  const rows = [request, ...answersOf(app.store, request)];
  const at = rows.indexOf(app.selected);
  go(rows[Math.min(rows.length - 1, Math.max(0, at + step))]);
}

/** The longest latency; where one of the longest is selected, the next longest. */
function goToWorst() {
  const worst = worstLatencies(app.store, app.rows, 20);
  const at = worst.indexOf(app.selected);
  if (worst.length > 0) go(worst[(at + 1) % worst.length]);
}

function goToLatency(type, latency) {
  const found = requestsOf(app.store, app.rows).find((row) => app.store.response[row] === latency && app.headers.typeName(row) === type);
  if (found !== undefined) go(found);
}

function goToError() {
  const count = listSource.count();
  const from = app.selected < 0 ? 0 : placeOf(app.selected, true) + 1;
  for (let i = 0; i < count; i++) {
    const row = rowAt((from + i) % count);
    if (isError(app.store, app.headers, row)) return select(row);
  }
}

// Filter.

/** Takes a filter; the plots follow. An expression that cannot be read leaves everything and says why. */
function setFilter(text) {
  const form = byId("filter");
  byId("expression").value = text;
  form.classList.remove("wrong");
  try {
    const fields = filterFields(app.store, app.headers);
    const predicate = text.trim() === "" ? null : parseFilter(text, fields);
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
  byId("filter-said").textContent = app.rows ? `${grouped(app.rows.length)} of ${grouped(app.store.count)}` : "";
  mark.shown = String(listSource.count());
  app.list.top = 0;
  layOut(app.list);
  if (app.selected >= 0) selectPlace(app.list, placeOf(app.selected, false));
  refresh();
}

/** Adds the time in view to the filter, in place of one that it added before. */
function filterToRange() {
  if (!app.range) return;
  const start = BigInt(app.store.meta.start_ps);
  const [from, to] = app.range.map((ps) => start + BigInt(Math.round(Math.max(0, ps))));
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
  if (view.timed && app.range) {
    tools.push(tool("Whole time", null, () => setRange(null)), tool("Filter to this time", null, filterToRange));
  }
  byId("tools").replaceChildren(...tools);
}

/** Draws the plot in view anew; calls made meanwhile are taken together. */
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
  showNote(view, note);
  listenToPlot();
  markSelected();
  mark.drawn = view.key;
  mark.drawnMs = String(Math.round(performance.now()));
}

/** A note below the plot; in place of a plot of nothing, large, what is missing. */
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

let listening = false;
function listenToPlot() {
  if (listening || !app.host.on) return;
  listening = true;
  app.host.on("plotly_relayout", (change) => {
    if (!viewNow().timed) return;
    const [from, to] = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
    if (from === undefined) return;
    const { ps } = timeAxis(rangeInView(app)).unit;
    setRange([from * ps, to * ps]);
  });
  app.host.on("plotly_doubleclick", () => {
    if (viewNow().timed) setRange(null);
  });
  onPlainClick(app.host, clickInPlot);
}

/** A click in a plot lands on the nearest point, else on the packet nearest in time. */
function clickInPlot(event) {
  const at = placeInPlot(app.host, event);
  if (!at || app.host.hidden) return;
  if (app.cloud) {
    const near = nearestPoint(app.host, app.cloud.groups, app.cloud.scale, at.x, at.y, 12);
    if (near) go(near.row);
  } else if (viewNow().timed) {
    const { xaxis } = app.host._fullLayout;
    go(rowNearTime((xaxis.range[0] + at.x / (xaxis._length / (xaxis.range[1] - xaxis.range[0]))) * timeAxis(rangeInView(app)).unit.ps));
  }
}

/** The row shown whose time is nearest. */
function rowNearTime(time) {
  let [best, least] = [-1, Infinity];
  forRows(app.store, app.rows, (row) => {
    const distance = Math.abs(app.store.time[row] - time);
    if (distance < least && app.store.number[row] > 0) [least, best] = [distance, row];
  });
  return best;
}

/** A line where the selected row is in time. */
function markSelected() {
  let line = byId("here");
  if (!line) {
    line = make("div", "");
    line.id = "here";
    byId("plot-area").append(line);
  }
  const layout = app.host._fullLayout;
  line.hidden = true;
  if (app.selected < 0 || !layout || app.host.hidden || !viewNow().timed || mark.drawn === undefined) return;
  const { xaxis, _size } = layout;
  const unit = timeAxis(rangeInView(app)).unit;
  const x = ((app.store.time[app.selected] / unit.ps - xaxis.range[0]) / (xaxis.range[1] - xaxis.range[0])) * xaxis._length;
  if (!(x >= 0 && x <= xaxis._length)) return;
  line.hidden = false;
  Object.assign(line.style, { left: `${_size.l + x}px`, top: `${_size.t}px`, height: `${_size.h}px` });
}

let hovering = false;
function hover(event) {
  if (hovering) return;
  hovering = true;
  requestAnimationFrame(() => {
    hovering = false;
    showTip(event);
  });
}

function showTip(event) {
  const tip = byId("tip");
  const at = app.cloud && event.target.closest("#plot") ? placeInPlot(app.host, event) : null;
  const near = at && nearestPoint(app.host, app.cloud.groups, app.cloud.scale, at.x, at.y, 10);
  tip.hidden = !near;
  if (!near) return;
  tip.textContent = tipText(near.row);
  tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - 260)}px`;
  tip.style.top = `${event.clientY + 14}px`;
}

function tipText(row) {
  const cells = cellsOf(app.store, app.headers, row, -1);
  const latency = app.store.response[row] >= 0 ? `\nanswered after ${duration(app.store.response[row])}` : "";
  return `frame ${cells.number}: ${cells.type} ${cells.requester}${cells.tag ? `, tag ${cells.tag}` : ""}\n${cells.info}\nat ${cells.time} µs${latency}`;
}

// Theme, keys, address.

function switchTheme() {
  nextTheme();
  refresh();
}

const KEYS = {
  ArrowDown: () => move(1),
  ArrowUp: () => move(-1),
  PageDown: () => move(visibleRows(app.list)),
  PageUp: () => move(-visibleRows(app.list)),
  Home: () => move(-Infinity),
  End: () => move(Infinity),
  j: () => moveInTransaction(1),
  k: () => moveInTransaction(-1),
  w: goToWorst,
  e: goToError,
  g: togglePlots,
  t: switchTheme,
  0: () => setRange(null),
  "/": () => byId("expression").select(),
  "?": () => byId("help").showModal(),
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
  if (event.target === byId("expression")) {
    if (event.key === "Escape") {
      setFilter("");
      byId("list").focus();
    }
    if (event.key === "ArrowDown") select(rowAt(app.list.top));
    return;
  }
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

/** What was drawn for another size is drawn anew: panels beside the plot come and go. */
function onPlotSize() {
  const layout = app.host._fullLayout;
  if (layout && (layout.width !== app.host.clientWidth || layout.height !== app.host.clientHeight)) refresh();
}

function listen() {
  byId("filter").addEventListener("submit", (event) => {
    event.preventDefault();
    setFilter(byId("expression").value);
    // One that cannot be read stays to be mended; else keys are keys again.
    if (mark.filterError === undefined) byId("list").focus();
  });
  byId("expression").addEventListener("search", () => setFilter(byId("expression").value));
  byId("theme").addEventListener("click", switchTheme);
  byId("help-open").addEventListener("click", () => byId("help").showModal());
  document.addEventListener("keydown", onKey);
  byId("plot-area").addEventListener("pointermove", hover);
  byId("plot-area").addEventListener("pointerleave", () => (byId("tip").hidden = true));
  new ResizeObserver(onPlotSize).observe(app.host);
  window.addEventListener("hashchange", () => applyHash());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => refresh());
}

async function applyHash() {
  const state = hashState();
  if (state.theme) applyTheme(state.theme);
  app.tab = state.tab ?? app.tab;
  setFilter(state.filter ?? "");
  await showTab(app.tab);
  if (state.select === "worst") goToWorst();
  else if (state.select) go(app.store.number.indexOf(Number(state.select)));
}

function showSummary() {
  const { store } = app;
  const { hidden } = store.meta;
  const parts = [`${grouped(store.total)} records over ${duration(store.end)}`];
  if (store.count < store.total) parts.push(`${Math.floor((100 * store.count) / store.total)} % read`);
  if (hidden > 0) parts.push(`${grouped(hidden)} more are not in this page`);
  byId("summary").textContent = parts.join("; ");
}

/** What scripts of others, and tests, may use. */
const interfaceOfPage = {
  start,
  loaded,
  app,
  select: (number) => go(app.store.number.indexOf(number)),
  setFilter,
  showTab,
  setRange,
  /** The data bytes of a row that the page keeps; a promise. */
  payload: (row) => payloadOf(app.store, row),
  /** Resolves when all is read and drawn. */
  idle: async () => {
    await pending;
    await refresh();
    await app.details;
  },
};
