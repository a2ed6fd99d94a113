// SPDX-License-Identifier: Apache-2.0 OR MIT
// The report's data as files. Never reaches a network: a file comes from a blob of this page.

const CSV_HEAD = ["figure", "plot", "series", "x_label", "y_label", "x", "y", "low", "high"];

/** A cell of CSV, quoted where it must be (RFC 4180). */
function csvCell(value) {
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** The rows of one plot's data, a point each, as cells. */
function plotRows(figure, plot) {
  return plot.series.flatMap((series) =>
    series.x.map((x, i) => [figure.key, plot.title, series.name, plot.x.label, plot.y.label, x, series.y[i], series.bars?.low[i] ?? "", series.bars?.high[i] ?? ""]),
  );
}

/** The data of some figures as CSV: a line per point. */
function csvOf(figures) {
  const rows = figures.flatMap((figure) => figure.plots.flatMap((plot) => plotRows(figure, plot)));
  return [CSV_HEAD, ...rows].map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
}

/** Hands out `text` as a file called `name`. */
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
