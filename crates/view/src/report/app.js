// SPDX-License-Identifier: Apache-2.0 OR MIT
// The logic of the report page: tables and figures as elements, plots, theme, downloads. The address after `#` is a
// figure's key, or `theme=light`, `theme=dark`. Makes no requests.

const FILE_NAME = "riser-report";
/** Maximum number of rows of a table that is not folded. */
const MAX_OPEN_ROWS = 60;
const app = { report: null, hosts: [], parallels: [] };

let pending = Promise.resolve();

/** Starts when the whole page is loaded. */
function loaded() {
  app.report = JSON.parse(byId("report").textContent);
  byId("title").textContent = app.report.title;
  byId("notes").replaceChildren(...app.report.notes.map((note) => make("p", "", note)));
  byId("tables").replaceChildren(...app.report.tables.map(tableSection));
  byId("figures").replaceChildren(...app.report.figures.map(figureSection));
  const figures = app.report.figures.map((figure) => contentsLink(figure.key, figure.title.split(":")[0]));
  byId("contents").replaceChildren(...figures, ...(app.report.tables.length > 0 ? [contentsLink("tables", "Tables")] : []));
  applyHash();
  listen();
  const target = ["tables", ...app.report.figures.map(({ key }) => key)].find((key) => `#${key}` === location.hash);
  if (target) byId(target).scrollIntoView();
  pending = drawAll().then(() => (mark.ready = "true"));
}

// Elements.

function contentsLink(key, text) {
  const link = make("a", "", text);
  link.href = `#${key}`;
  return link;
}

function isNumber(text) {
  return text === "" || /^[-+]?[\d.,]+( ?%)?$/.test(text) || text === "-";
}

/** Returns a table with columns of numbers aligned to the right. */
function tableOf(columns, rows) {
  const right = columns.map((_, at) => rows.length > 0 && rows.every((row) => isNumber(row[at])));
  const cell = (tag) => (text, at) => make(tag, right[at] ? "number" : "", text);
  const head = make("thead", "", make("tr", "", ...columns.map(cell("th"))));
  const body = make("tbody", "", ...rows.map((row) => make("tr", "", ...row.map(cell("td")))));
  return make("table", "", head, body);
}

/** Returns a table with its title. It is folded if it is long, or if the report says so. */
function tableSection(table) {
  const full = tableOf(table.columns, table.rows);
  const folded = () => make("details", "", make("summary", "", `${table.rows.length} rows`), full);
  return make("section", "tables", make("h2", "", table.title), table.folded || table.rows.length > MAX_OPEN_ROWS ? folded() : full);
}

function button(text, clicked) {
  const element = make("button", "", text);
  element.type = "button";
  element.addEventListener("click", clicked);
  return element;
}

function figureSection(figure) {
  const section = make("section", "figure", make("h2", "", figure.title), make("p", "", figure.text));
  section.id = figure.key;
  if (figure.notes.length > 0) section.append(make("ul", "lacks", ...figure.notes.map((note) => make("li", "", note))));
  if (figure.parallel) section.append(parallelBox(figure));
  if (figure.plots.length === 0) return section;
  section.append(make("div", "plots", ...figure.plots.map((plot) => plotBox(figure, plot))), valuesOf(figure));
  return section;
}

function plotBox(figure, plot) {
  const host = make("div", "area");
  host.setAttribute("role", "img");
  host.setAttribute("aria-label", `${figure.title}. ${plot.title}. ${plot.series.length} series.`);
  app.hosts.push({ host, plot });
  return make("div", "plot", make("h3", "", plot.title), host);
}

/** Returns the values of a figure as a table, which is built when the reader opens it, and a button for the CSV file. */
function valuesOf(figure) {
  const details = make("details", "", make("summary", "", "Values"));
  details.addEventListener("toggle", () => {
    if (details.childElementCount > 1) return;
    const rows = figure.plots.flatMap((plot) => plotRows(figure, plot).map((row) => row.slice(1).map(String)));
    const save = button("CSV of this figure", () => handOutCsv([figure], `${FILE_NAME}-${figure.key}`));
    details.append(save, make("div", "values", tableOf(CSV_HEAD.slice(1), rows)));
  });
  return details;
}

// Plots are drawn one by one, so that the first is visible before the others.

async function drawAll() {
  app.parallels.forEach(drawParallel);
  for (const { host, plot } of app.hosts) await drawPlot(host, plot);
  mark.drawn = String(app.hosts.length);
}

let redrawing = false;
/** Redraws all plots, for another theme or width. Calls during a redraw are combined. */
function redraw() {
  if (redrawing) return;
  redrawing = true;
  pending = pending.then(() => {
    redrawing = false;
    return drawAll();
  });
}

function switchTheme() {
  nextTheme();
  redraw();
}

function applyHash() {
  const { theme } = hashState();
  applyTheme(theme ?? themeNow);
}

function listen() {
  byId("theme").addEventListener("click", switchTheme);
  byId("download-csv").addEventListener("click", () => handOutCsv(app.report.figures, FILE_NAME));
  byId("download-json").addEventListener("click", () => handOutJson(app.report, FILE_NAME));
  document.addEventListener("keydown", (event) => {
    if (event.key === "t" && !event.ctrlKey && !event.metaKey && !event.altKey) switchTheme();
  });
  window.addEventListener("resize", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

/** Interface for other scripts and for tests. */
const interfaceOfPage = {
  loaded,
  app,
  csv: () => csvOf(app.report.figures),
  /** Resolves when all plots are drawn. */
  idle: async () => {
    let last;
    do await (last = pending);
    while (last !== pending);
  },
};
