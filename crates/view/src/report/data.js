// SPDX-License-Identifier: Apache-2.0 OR MIT
// The report's data as files. The page makes the files itself, so no network is needed.

const CSV_HEAD = ["figure", "plot", "series", "x_label", "y_label", "x", "y", "low", "high"];

/** Returns a cell of CSV, quoted if necessary (RFC 4180). */
function csvCell(value) {
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Returns the rows of one plot's data as cells, one row per point. */
function plotRows(figure, plot) {
  return plot.series.flatMap((series) =>
    series.x.map((x, i) => [figure.key, plot.title, series.name, plot.x.label, plot.y.label, x, series.y[i], series.bars?.low[i] ?? "", series.bars?.high[i] ?? ""]),
  );
}

/** Returns the data of some figures as CSV, one line per point. */
function csvOf(figures) {
  const rows = figures.flatMap((figure) => figure.plots.flatMap((plot) => plotRows(figure, plot)));
  return [CSV_HEAD, ...rows].map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
}

/** Downloads `text` as a file with this name. */
function handOut(name, type, text) {
  const link = make("a", "");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

function handOutCsv(figures, name) {
  handOut(`${name}.csv`, "text/csv", csvOf(figures));
}

function handOutJson(value, name) {
  handOut(`${name}.json`, "application/json", `${JSON.stringify(value, null, 1)}\n`);
}
