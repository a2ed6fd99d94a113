// SPDX-License-Identifier: Apache-2.0 OR MIT
// Converts a plot of the report to plotly's traces and layout. Reads only the colours of the page's style.

const SERIES_COLOURS = 6;
const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "hexagon"];
const PLOT_CONFIG = { displayModeBar: false, responsive: false, doubleClick: "reset", showTips: false };
const BINARY_UNITS = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]];

/** Returns a number of bytes in the largest unit that divides it: `4 KiB`. */
function bytesText(bytes) {
  const [size, name] = BINARY_UNITS.find(([unit]) => bytes >= unit && bytes % (unit / 2) === 0) ?? [1, "B"];
  return `${bytes / size} ${name}`;
}

/** Returns a value as text, with five significant digits and the unit. */
function valueText(value, axisOf) {
  if (axisOf.scale === "bytes") return bytesText(value);
  const text = String(Number(value.toPrecision(5)));
  return axisOf.unit ? `${text} ${axisOf.unit}` : text;
}

/** Returns the text under the pointer for the `i`th point of a series. */
function hoverText(plot, series, i) {
  const bars = series.bars ? `<br>${series.bars.name}: ${valueText(series.bars.low[i], plot.y)} to ${valueText(series.bars.high[i], plot.y)}` : "";
  return `${valueText(series.x[i], plot.x)}: <b>${valueText(series.y[i], plot.y)}</b>${bars}`;
}

function errorBars({ bars, y }, tint) {
  if (!bars) return undefined;
  return {
    type: "data",
    symmetric: false,
    array: bars.high.map((high, i) => high - y[i]),
    arrayminus: bars.low.map((low, i) => y[i] - low),
    color: tint,
    thickness: 1,
    width: 2,
  };
}

/** Escapes text, so that plotly does not interpret it as markup. */
function plain(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

function traceOf(plot, series) {
  const tint = colour(`series${series.colour % SERIES_COLOURS}`);
  const symbol = SYMBOLS[series.colour % SYMBOLS.length];
  const modes = { line: "lines+markers", curve: "lines", dashed: "lines", points: "markers" };
  return {
    type: "scatter",
    mode: modes[series.look],
    name: plain(series.name),
    x: series.x,
    y: series.y,
    line: { color: tint, width: series.look === "dashed" ? 1.5 : 2, dash: series.look === "dashed" ? "dash" : "solid" },
    marker: series.look === "points" ? { color: tint, size: 8, symbol: `${symbol}-open`, line: { width: 1.5 } } : { color: tint, size: 5, symbol },
    error_y: errorBars(series, tint),
    text: series.x.map((_, i) => hoverText(plot, series, i)),
    hovertemplate: `%{text}<extra>${plain(series.name)}</extra>`,
  };
}

function axisOfPlot(axisOf, values) {
  const title = plain(axisOf.label);
  if (axisOf.scale === "linear") return axis(title, { rangemode: "tozero" });
  if (axisOf.scale === "log") return axis(title, { type: "log" });
  const exponents = values.filter((value) => value > 0).map(Math.log2);
  const [from, to] = [Math.floor(Math.min(...exponents)), Math.ceil(Math.max(...exponents))];
  const step = Math.max(1, Math.ceil((to - from) / 8));
  const ticks = Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, i) => 2 ** (from + i * step));
  return axis(title, { type: "log", tickmode: "array", tickvals: ticks, ticktext: ticks.map(bytesText) });
}

/** Returns the number of rows of a legend with entries of these widths. If one row is too narrow, the columns are as wide as
 *  the widest entry. */
function legendRowsOf(widths, room) {
  if (widths.reduce((sum, width) => sum + width, 0) <= room) return 1;
  return Math.ceil(widths.length / Math.max(1, Math.floor(room / Math.max(...widths))));
}

/** Returns plotly's layout for a plot of a given size in CSS pixels. */
function layoutOf(plot, width, height) {
  const xs = plot.series.flatMap((series) => series.x);
  const ys = plot.series.flatMap((series) => series.y);
  const legendRows = legendRowsOf(plot.series.map(({ name }) => name.length * 6.4 + 46), Math.max(200, width - 80));
  return {
    width,
    height,
    margin: { l: 62, r: 14, t: 8, b: 56 + 19 * legendRows },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: colour("ink"), family: "system-ui, DejaVu Sans, sans-serif", size: 12 },
    legend: { orientation: "h", x: 0, xanchor: "left", y: 0, yref: "container", yanchor: "bottom", bgcolor: "rgba(0,0,0,0)", font: { size: 11 } },
    showlegend: true,
    hovermode: "closest",
    hoverlabel: { font: { size: 12 }, namelength: -1 },
    dragmode: "zoom",
    xaxis: axisOfPlot(plot.x, xs),
    yaxis: axisOfPlot(plot.y, ys),
  };
}

/** Draws or redraws a plot in `host`. Resolves when it is drawn. */
async function drawPlot(host, plot) {
  const Plotly = await loadPlotly();
  const traces = plot.series.map((series) => traceOf(plot, series));
  await Plotly.react(host, traces, layoutOf(plot, host.clientWidth, host.clientHeight), PLOT_CONFIG);
}
