// SPDX-License-Identifier: Apache-2.0 OR MIT
// Converts series to plotly: layouts, colours, and clouds of any number of points. Also finds the target of a click.

/** Maximum number of points that plotly draws. Since it makes an element per point, more points are painted as a picture. */
const MAX_MARKERS = 3000;
const MARGIN = { l: 70, r: 16, t: 24, b: 40 };
/** Pixels between two stacked plots, with space for a caption. */
const GAP_PX = 20;
/** Minimum height of a stacked plot, and height of an axis label, in pixels. */
const MIN_ROW_PX = 24;
const TICK_PX = 14;
const PLOT_CONFIG = { displayModeBar: false, responsive: false, doubleClick: "reset", showTips: false };

/** A class has the colour of its most common kind. */
const CLASS_COLOURS = { P: "write", NP: "read", Cpl: "completion" };
const CLASS_NAMES = { P: "posted", NP: "non-posted", Cpl: "completions" };
const SYMBOLS = { NP: "triangle-right", Cpl: "diamond", P: "x" };
/** Colours of series that are not kinds of TLPs, such as requesters. */
const SERIES_COLOURS = 6;

/** Returns the total height of the plots in `host` in pixels. */
function innerPx(host) {
  return Math.max(1, host.clientHeight - MARGIN.t - MARGIN.b);
}

/** Returns the number of plots that fit into `host` as a stack, at most `most`. */
function rowsThatFit(host, most) {
  return Math.min(most, Math.max(1, Math.floor((innerPx(host) + GAP_PX) / (MIN_ROW_PX + GAP_PX))));
}

/** Returns a setting that limits the number of tick labels of a low plot. By default, plotly draws five or more. */
function fewTicks(rowPx) {
  const fit = Math.max(2, Math.floor(rowPx / TICK_PX));
  return fit < 5 ? { nticks: fit } : {};
}

/** Returns a layout for `host` with stacked plots over one x axis. `yTitles` has one title per plot. */
function layoutOf(host, xAxis, yTitles, more = {}) {
  const { shapes = [], annotations = [] } = more.time ?? {};
  const layout = {
    margin: { ...MARGIN },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: colour("ink"), family: "system-ui, DejaVu Sans, sans-serif", size: 12 },
    legend: { orientation: "h", x: 1, xanchor: "right", y: 1, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)", font: { size: 11 } },
    hoverlabel: { font: { size: 12 } },
    dragmode: "zoom",
    showlegend: true,
    ...more,
    shapes,
    annotations: [...(more.annotations ?? []), ...annotations],
  };
  const gap = GAP_PX / innerPx(host);
  const height = (1 - gap * (yTitles.length - 1)) / yTitles.length;
  yTitles.forEach((title, i) => {
    const top = 1 - i * (height + gap);
    const name = i === 0 ? "yaxis" : `yaxis${i + 1}`;
    layout[name] = axis(title, { domain: [Math.max(0, top - height), top], fixedrange: true, rangemode: "tozero", ...fewTicks(height * innerPx(host)), ...more.y });
  });
  layout.xaxis = { ...xAxis, anchor: yTitles.length === 1 ? "y" : `y${yTitles.length}` };
  delete layout.y;
  delete layout.time;
  return layout;
}

/** Draws traces. Resolves when they are drawn. */
async function draw(host, traces, layout) {
  const Plotly = await loadPlotly();
  layout.width = host.clientWidth;
  layout.height = host.clientHeight;
  await Plotly.react(host, traces, layout, PLOT_CONFIG);
}

/** Returns traces of point clouds. With many points, they have no markers, only names for the legend. */
function cloudTraces(groups, scale, many) {
  return groups.map((group) => ({
    type: "scatter",
    mode: "markers",
    name: group.name,
    hoverinfo: "skip",
    legendgroup: group.name,
    showlegend: !groups.some((other) => other.name === group.name && other.facet < group.facet),
    yaxis: group.facet === 0 ? "y" : `y${group.facet + 1}`,
    x: many ? [null] : group.x.map(scale.x),
    y: many ? [null] : group.y.map((y) => y / scale.y),
    marker: { size: many ? 9 : 7, symbol: SYMBOLS[group.class] ?? "circle", color: colour(group.tint), opacity: 0.85 },
  }));
}

/** Returns captions at the upper left of stacked plots. */
function captions(names) {
  return names.map((text, i) => ({
    text, showarrow: false, xref: "paper", x: 0, xanchor: "left", yref: `y${i === 0 ? "" : i + 1} domain`, y: 1, yanchor: "bottom", font: { size: 11, color: colour("soft") },
  }));
}

/** Paints the points of `groups` over the axes of a drawn plot, as one picture per facet. */
async function paintCloud(host, groups, scale) {
  const facets = [...new Set(groups.map((group) => group.facet))];
  const images = facets.map((facet) => facetPicture(host, groups.filter((group) => group.facet === facet), scale, facet));
  await window.Plotly.relayout(host, { images });
}

function facetPicture(host, groups, scale, facet) {
  const { xaxis } = host._fullLayout;
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(xaxis._length));
  canvas.height = Math.max(1, Math.round(facetAxis(host, facet)._length));
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const place = placer(host, scale, facet);
  for (const group of groups) {
    const counts = countPixels(canvas, group, place);
    tintPixels(new Uint32Array(image.data.buffer), counts, pixelColour(colour(group.tint)));
  }
  context.putImageData(image, 0, 0);
  const yref = `${facet === 0 ? "y" : `y${facet + 1}`} domain`;
  return { source: canvas.toDataURL(), xref: "paper", yref, x: 0, y: 1, sizex: 1, sizey: 1, sizing: "stretch", layer: "above" };
}

/** Returns the y axis of the `facet`th plot from the top. */
function facetAxis(host, facet) {
  return host._fullLayout[facet === 0 ? "yaxis" : `yaxis${facet + 1}`];
}

/** Returns a function from values to pixels within one of the plots. */
function placer(host, scale, facet) {
  const { xaxis } = host._fullLayout;
  const yaxis = facetAxis(host, facet);
  const log = yaxis.type === "log";
  const [x0, x1] = xaxis.range;
  const [y0, y1] = yaxis.range;
  const across = xaxis._length / (x1 - x0);
  const up = yaxis._length / (y1 - y0);
  return {
    x: (x) => (scale.x(x) - x0) * across,
    y: (y) => yaxis._length - ((log ? Math.log10(y / scale.y) : y / scale.y) - y0) * up,
  };
}

/** Returns a colour as a pixel of ImageData, without its opacity. */
function pixelColour(text) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
  return (blue << 16) | (green << 8) | red;
}

/** Counts the points on each pixel. A point is two pixels wide and high. */
function countPixels({ width, height }, group, place) {
  const counts = new Uint32Array(width * height);
  for (let i = 0; i < group.x.length; i++) {
    const x = Math.round(place.x(group.x[i]));
    const y = Math.round(place.y(group.y[i]));
    if (x < 0 || y < 0 || x >= width - 1 || y >= height - 1) continue;
    const at = y * width + x;
    counts[at]++;
    counts[at + 1]++;
    counts[at + width]++;
    counts[at + width + 1]++;
  }
  return counts;
}

// A single point is visible. Several points on one pixel are more opaque.
function tintPixels(pixels, counts, pixel) {
  const most = counts.reduce((a, b) => Math.max(a, b), 1);
  const steepness = 150 / Math.log2(most + 1);
  for (let at = 0; at < counts.length; at++) {
    if (counts[at] > 0) pixels[at] = ((105 + Math.round(steepness * Math.log2(counts[at] + 1))) << 24) | pixel;
  }
}

/** Returns the point nearest to a position in the plot, within `reach` pixels: { group, i, row }, or null. */
function nearestPoint(host, groups, scale, px, py, reach) {
  let best = null;
  let least = reach * reach;
  for (const group of groups) {
    const place = placer(host, scale, group.facet);
    const top = facetAxis(host, group.facet)._offset - host._fullLayout._size.t;
    for (let i = 0; i < group.x.length; i++) {
      const dx = place.x(group.x[i]) - px;
      if (dx > reach || dx < -reach) continue;
      const dy = place.y(group.y[i]) + top - py;
      const distance = dx * dx + dy * dy;
      if (distance <= least) [least, best] = [distance, { group, i, row: group.row[i] }];
    }
  }
  return best;
}

/** Returns the position of an event within the plot in pixels; null outside. */
function placeInPlot(host, event) {
  if (!host._fullLayout) return null;
  const { xaxis, _size } = host._fullLayout;
  const box = host.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left - _size.l, event.clientY - box.top - _size.t];
  return x < 0 || y < 0 || x > xaxis._length || y > _size.h ? null : { x, y };
}

/** Calls `clicked(event)` for clicks in `host` that are not drags. */
function onPlainClick(host, clicked) {
  let down = null;
  host.addEventListener("pointerdown", (event) => (down = event), true);
  window.addEventListener("pointerup", (event) => {
    const still = down && Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) < 4;
    if (still && event.button === 0) clicked(event);
    down = null;
  }, true);
}
