// SPDX-License-Identifier: Apache-2.0 OR MIT
// Content and selection of the list: records, or transactions, which unfold to their TLPs and DLLPs. For each row
// of the store, its first place in the list is known.

/** Maximum number of unfolded transactions. */
const MAX_UNFOLDED = 200_000;

const COLUMNS = [
  { key: "number", text: "Frame" },
  { key: "time", text: "Time, µs" },
  { key: "delta", text: "Since last", down: true },
  { key: "way", text: "", title: "Direction" },
  { key: "link", text: "Link" },
  { key: "type", text: "Type" },
  { key: "requester", text: "Requester" },
  { key: "tag", text: "Tag" },
  { key: "info", text: "Address, what it is", title: "Address" },
  { key: "bytes", text: "Bytes", down: true },
  { key: "status", text: "Status" },
  { key: "latency", text: "Latency", down: true },
];

const listSource = {
  count: () => (app.shown.rows ? app.shown.rows.length : app.store.count),
  cells: cellsAt,
  kind: (place) => rowKind(rowAt(place), place),
  tint: (place) => app.headers.tint(rowAt(place)),
};

function rowAt(place) {
  return app.shown.rows ? app.shown.rows[place] : place;
}

/** Returns the depth of a line: 0 for records and transactions, 1 for TLPs of transactions, 2 for their Acks and Naks. */
function depthAt(place) {
  return app.shown.depths ? app.shown.depths[place] : 0;
}

/** Returns whether a line is a whole transaction. */
function isUnit(place) {
  return app.mode === "transactions" && depthAt(place) === 0;
}

function cellsAt(place) {
  const { store, headers } = app;
  const row = rowAt(place);
  const cells = cellsOf(store, headers, row, place > 0 ? rowAt(place - 1) : -1);
  const broken = violationsOf(store, row);
  if (broken.length > 0) cells.info = `${broken.map((text) => `⚠ ${text}`).join("; ")}; ${cells.info}`;
  if (!isUnit(place)) return { ...cells, info: cells.info + legText(place, row) };
  const [answers, links] = [answersOf(store, row).length, linksOf(store, row).length];
  const several = (count, what) => `, ${count} ${what}${count === 1 ? "" : "s"}`;
  const count = (answers > 0 ? several(answers, "completion") : "") + (links > 1 ? several(links, "link") : "");
  return { ...cells, number: `${app.open.has(row) ? "▾" : "▸"} ${cells.number}`, info: cells.info + count, status: unitStatus(store, headers, row) };
}

/** Returns the time to the next link and back, for a request in an unfolded transaction on several links. */
function legText(place, row) {
  const root = rootOf(app.store, row);
  if (app.mode !== "transactions" || depthAt(place) !== 1 || !app.store.hops.has(root)) return "";
  const ps = legsOf(app.store, root).get(row);
  return ps >= 0 ? `, ${duration(ps)} from here on` : "";
}

function rowKind(row, place) {
  const request = app.selected >= 0 ? transactionOf(app.store, app.selected) : -1;
  const same = request >= 0 && transactionOf(app.store, row) === request ? " same" : "";
  const failed = isWrong(place) ? " failed" : "";
  const broken = violationsOf(app.store, row).length > 0 ? " broken" : "";
  const marked = app.marks.has(row) ? " marked" : "";
  const cursor = CURSORS.filter((name) => app.cursors[name] === app.store.time[row]).map((name) => ` at-${name}`).join("");
  return `${app.headers.className(row)} depth${depthAt(place)}${same}${failed}${broken}${marked}${cursor}`;
}

/** Returns the place of a row in the list. If it is not in the list, returns the next place with `near`, otherwise -1. */
function placeOf(row, near) {
  const { rows } = app.shown;
  if (!rows) return row;
  app.shown.places ??= placesOf(rows);
  const place = app.shown.places[row];
  if (place >= 0 || !near) return place;
  return app.sort ? 0 : Math.min(lowerBound(rows, row), rows.length - 1);
}

function placesOf(rows) {
  const places = new Int32Array(app.store.count).fill(-1);
  for (let place = rows.length - 1; place >= 0; place--) places[rows[place]] = place;
  return places;
}

// Rows and their order.

/** Rebuilds the list from the rows that pass the filter, in the sort order. */
function arrange() {
  app.unitRows = app.plotRows = null;
  const rows = app.mode === "transactions" ? unitsShown() : app.rows;
  app.ordered = app.sort ? inOrder(rows ?? Uint32Array.from({ length: app.store.count }, (_, row) => row)) : rows;
  unfoldList();
}

/** Inserts the lines of unfolded transactions into the list. */
function unfoldList() {
  const byUnit = app.mode === "transactions";
  const rows = app.ordered;
  app.shown = byUnit && app.open.size > 0 ? unfolded(rows) : { rows, depths: null, places: null };
  mark.shown = String(listSource.count());
  showHead();
  layOut(app.list);
  if (app.selected >= 0) selectPlace(app.list, placeOf(app.selected, false));
}

/** Returns the transactions, built on first use. */
function units() {
  app.units ??= makeUnits(app.store, app.headers);
  return app.units;
}

/** Returns the transactions that pass the filter. */
function unitsShown() {
  const { rows } = units();
  app.unitRows ??= app.unitHolds ? rows.filter(app.unitHolds) : rows;
  return app.unitRows;
}

/** Returns the rows for the plots: records that pass the filter, or all TLPs of transactions that pass it; null for all. */
function plotRows() {
  if (app.mode === "records" || !app.unitHolds) return app.rows;
  app.plotRows ??= Uint32Array.from([...unitsShown()].flatMap((unit) => units().tlps(unit))).sort();
  return app.plotRows;
}

function inOrder(rows) {
  const { store, headers, sort } = app;
  const statusAt = (row) => (app.mode === "transactions" ? unitStatus(store, headers, row) : store.kind[row] === KIND.tlp ? statusCell(store, headers, row) : "");
  const keys = sortKeys(store, headers, statusAt);
  return sortedRows(rows, sort.key === "delta" ? sinceBefore(store, rows) : keys[sort.key], sort.down);
}

function unfolded(rows) {
  const lines = { rows: [], depths: [], places: null };
  const add = (row, depth) => {
    lines.rows.push(row);
    lines.depths.push(depth);
  };
  for (const unit of rows) {
    add(unit, 0);
    if (app.open.has(unit)) for (const { row, depth } of units().unfold(unit)) add(row, depth);
  }
  return lines;
}

/** Switches between records and transactions. */
function setMode(mode) {
  app.mode = mode === "transactions" ? mode : "records";
  for (const name of ["records", "transactions"]) byId(`mode-${name}`).setAttribute("aria-pressed", String(name === app.mode));
  byId("unfold-all").hidden = app.mode !== "transactions";
  app.list.top = 0;
  arrange();
  showCount();
  saveHash();
  return refresh();
}

/** Sorts by a column. Repeated clicks give one direction, the other, then the order of the capture. */
function sortBy(key) {
  const first = COLUMNS.find((column) => column.key === key).down === true;
  if (app.sort?.key !== key) app.sort = { key, down: first };
  else app.sort = app.sort.down === first ? { key, down: !first } : null;
  app.list.top = 0;
  arrange();
  saveHash();
}

/** Parses the sort order in the address: a column, with `-` before it for descending order; null for other text. */
function sortFrom(text) {
  const key = text.replace(/^-/, "");
  return COLUMNS.some((column) => column.key === key) ? { key, down: text !== key } : null;
}

function showHead() {
  const cells = COLUMNS.map(({ key, text, title }) => {
    const sorted = app.sort?.key === key ? (app.sort.down ? "descending" : "ascending") : "none";
    const cell = make("button", key, text, make("i", "", { ascending: "▴", descending: "▾", none: "" }[sorted]));
    Object.assign(cell, { type: "button", title: `Sort by ${(title ?? text).toLowerCase()}` });
    cell.dataset.sort = sorted;
    cell.addEventListener("click", () => sortBy(key));
    return cell;
  });
  document.querySelector(".head").replaceChildren(...cells);
}

/** Shows the number of lines next to the filter. */
function showCount() {
  const isAll = app.mode === "records" ? !app.rows : !app.unitHolds;
  const all = app.mode === "records" ? app.store.count : units().rows.length;
  const shown = app.mode === "records" ? (app.rows ?? { length: all }).length : unitsShown().length;
  const what = app.mode === "records" ? "" : " transactions";
  byId("filter-said").textContent = isAll ? (what ? grouped(all) + what : "") : `${grouped(shown)} of ${grouped(all)}${what}`;
}

// Unfolding.

/** Unfolds a transaction to its TLPs and DLLPs if `open` is true, and folds it if `open` is false. Without `open`, switches. */
function toggleUnit(place, open) {
  let at = place;
  while (at > 0 && depthAt(at) > 0) at--;
  if (place < 0 || !isUnit(at)) return;
  const unit = rowAt(at);
  const opens = open ?? !app.open.has(unit);
  if (opens === app.open.has(unit)) return;
  if (opens) app.open.add(unit);
  else app.open.delete(unit);
  const top = app.list.top;
  unfoldList();
  scrollTo(app.list, Math.min(top, at));
  select(unit, false);
}

function toggleAll() {
  const rows = unitsShown();
  const isOpen = app.open.size > 0;
  if (!isOpen && rows.length > MAX_UNFOLDED) {
    byId("filter-said").textContent = `more than ${grouped(MAX_UNFOLDED)} transactions: filter first`;
    return;
  }
  app.open = new Set(isOpen ? [] : rows);
  unfoldList();
}

// Selection.

/** Selects a row in the list, the details and the plot. */
function select(row, focus = true, place = placeOf(row, false)) {
  app.selected = row;
  mark.selected = row >= 0 ? String(app.store.number[row]) : "";
  selectPlace(app.list, row >= 0 ? place : -1);
  if (row >= 0) app.details = showDetails(byId("details"), app.store, app.headers, row, go);
  for (const button of app.aside.querySelectorAll("button[data-row]")) {
    button.className = Number(button.dataset.row) === row ? "current" : "";
  }
  placeLines(app);
  saveHash();
  if (focus) byId("list").focus({ preventScroll: true });
}

/** Handles a click in the list. A click on the triangle of a transaction unfolds it. */
function clickInList(place, target) {
  if (isUnit(place) && target.classList.contains("number")) toggleUnit(place);
  else select(rowAt(place), false, place);
}

/** Goes to a row from another panel. If the row is hidden, unfolds its transaction and clears the filter. */
function go(row) {
  if (row < 0) return;
  if (placeOf(row, false) < 0 && app.mode === "transactions") showInUnit(row);
  if (placeOf(row, false) < 0) setFilter("");
  select(row);
}

// A record that belongs to no transaction is only in the list of records.
function showInUnit(row) {
  const unit = app.store.kind[row] === KIND.tlp ? units().unitOf(row) : -1;
  if (unit >= 0 && placeOf(unit, false) < 0) setFilter("");
  if (unit < 0 || placeOf(unit, false) < 0) return setMode("records");
  app.open.add(unit);
  return unfoldList();
}

function move(step) {
  const count = listSource.count();
  if (count === 0) return;
  const chosen = app.list.selected >= 0 ? app.list.selected : placeOf(app.selected, true);
  const at = app.selected < 0 ? app.list.top - Math.sign(step) : chosen;
  const place = Math.min(count - 1, Math.max(0, at + step));
  select(rowAt(place), true, place);
}

/** Goes to the next or previous packet of the selected transaction. */
function moveInTransaction(step) {
  const request = app.selected >= 0 ? transactionOf(app.store, app.selected) : -1;
  if (request < 0) return;
  const rows = rowsOf(app.store, request);
  const at = rows.indexOf(app.selected);
  go(rows[Math.min(rows.length - 1, Math.max(0, at + step))]);
}

/** Goes to the longest latency. If one of the longest is selected, goes to the next longest. */
function goToWorst() {
  const worst = worstLatencies(app.store, plotRows(), 20);
  const at = worst.indexOf(app.selected);
  if (worst.length > 0) go(worst[(at + 1) % worst.length]);
}

function goToLatency(type, latency) {
  const found = requestsOf(app.store, plotRows()).find((row) => app.store.response[row] === latency && app.headers.typeName(row) === type);
  if (found !== undefined) go(found);
}

/** Goes to the next line whose place satisfies `holds`. After the last one, goes to the first. */
function goToNext(holds) {
  const count = listSource.count();
  const from = app.selected < 0 ? 0 : placeOf(app.selected, true) + 1;
  for (let i = 0; i < count; i++) {
    const place = (from + i) % count;
    if (holds(place)) return select(rowAt(place), true, place);
  }
}

function goToViolation() {
  goToNext((place) => violationsOf(app.store, rowAt(place)).length > 0);
}

/** Returns whether the filter `error` matches the line at a place. A transaction is an error if it failed or one of its TLPs is
 *  an error. */
function isWrong(place) {
  const of = (row) => isError(app.store, app.headers, row);
  return (isUnit(place) ? ofAnyTlp(of, "error") : of)(rowAt(place));
}
