// SPDX-License-Identifier: Apache-2.0 OR MIT
// The plots of the page, one function per plot. `app` has the store, its headers, the rows that pass the filter
// (null for all), the time range in view and the options. Never changes the selection.

/** The plots, in the order of their tabs and keys. `timed` is true if the x axis is time. */
const VIEWS = [
  { key: "latency", name: "Latency", timed: true, draw: drawLatency, options: [["log", "Log scale"]] },
  { key: "cdf", name: "Distribution", timed: false, draw: drawDistribution, options: [["tail", "Tail"]] },
  { key: "tags", name: "Tags", timed: true, draw: drawTags, options: [] },
  { key: "throughput", name: "Throughput", timed: true, draw: drawThroughput, options: [["dataOnly", "Data only"]] },
  { key: "outstanding", name: "Outstanding", timed: true, draw: drawOutstanding, options: [] },
  {
    key: "credits",
    name: "Flow control",
    timed: true,
    draw: drawCredits,
    options: [["data", "Data credits"], ["header", "Header credits"], ["unacked", "Not acknowledged"]],
    oneOf: true,
  },
  { key: "summary", name: "Summary", timed: false, draw: drawSummary, options: [] },
];

/** Maximum number of stacked plots. */
const MAX_LANES = 4;

/** Returns the time range in view, or the time of the whole capture with some space on both sides. */
function rangeInView(app) {
  if (app.range) return app.range;
  const end = Math.max(app.store.end, 1000);
  const room = 0.01 * app.timeline.toAxis(end);
  return [-room, end + room];
}

/** Returns the time axis of the range in view. It belongs to the plot until the next one is drawn. */
function timeInView(app) {
  app.time = timeAxis(app.timeline, rangeInView(app));
  return app.time;
}

/** Returns the times that divide the range in view into `count` parts of equal width. */
function edgesInView(app, count) {
  return edgesOf(app.timeline, rangeInView(app), count);
}

/** Returns the note of an empty plot, with a command that records the missing data. */
function nothing(text, how = "") {
  return { text, how };
}

/** Returns the points of groups within a time range. */
function groupsWithin(groups, [from, to]) {
  const inside = groups.list().map((group) => {
    const kept = { ...group, x: [], y: [], row: [] };
    group.x.forEach((x, i) => {
      if (x < from || x > to) return;
      kept.x.push(x);
      kept.y.push(group.y[i]);
      kept.row.push(group.row[i]);
    });
    return kept;
  });
  return inside.filter((group) => group.x.length > 0);
}

function pointsOf(groups) {
  return groups.reduce((sum, group) => sum + group.x.length, 0);
}

/** Draws points over time, in one plot per facet. `extra` returns traces below and above them. */
async function drawCloud(app, groups, yAxis, yScale, extra = () => []) {
  const time = timeInView(app);
  const inside = groupsWithin(groups, rangeInView(app));
  const scale = { x: time.toX, y: yScale };
  const many = pointsOf(inside) > MAX_MARKERS;
  const titles = (yAxis.names ?? [""]).map(() => yAxis.title);
  const more = { y: yAxis.more, annotations: captions(yAxis.names ?? []), time };
  await draw(app.host, [...cloudTraces(inside, scale, many), ...extra(scale, inside, many)], layoutOf(app.host, time.axis, titles, more));
  if (many) await paintCloud(app.host, inside, scale);
  app.cloud = { groups: inside, scale };
  return inside.length > 0;
}

async function drawLatency(app) {
  const points = latencyPoints(app.store, app.headers, plotRows());
  const range = rangeInView(app);
  const inside = groupsWithin(points, range);
  const most = inside.reduce((m, group) => group.y.reduce((a, b) => Math.max(a, b), m), 0);
  const least = inside.reduce((m, group) => group.y.reduce((a, b) => Math.min(a, b), m), Infinity);
  const unit = unitOf(most);
  const log = app.options.log && least > 0 && inside.length > 0;
  const ends = log ? [Math.log10((least / unit.ps) * 0.8), Math.log10((most / unit.ps) * 1.25)] : [0, (most / unit.ps) * 1.08 || 1];
  const more = { type: log ? "log" : "linear", range: ends, rangemode: "normal" };
  app.worst = worstLatencies(app.store, plotRows(), 20);
  // The list comes before the plot, because it takes some of the plot's space.
  showWorst(app);
  const any = await drawCloud(app, points, { title: `Latency, ${unit.name}`, more }, unit.ps, (scale) => [worstTrace(app, scale, range)]);
  return any ? "" : nothing("No request was answered.");
}

// The longest latencies are always drawn as markers, for any number of points.
function worstTrace(app, scale, range) {
  const { store } = app;
  const rows = app.worst.filter((row) => store.time[row] >= range[0] && store.time[row] <= range[1]);
  return {
    type: "scatter",
    mode: "markers",
    name: "longest",
    hoverinfo: "skip",
    x: rows.map((row) => scale.x(store.time[row])),
    y: rows.map((row) => store.response[row] / scale.y),
    marker: { size: 10, symbol: "circle-open", color: colour("bad"), line: { width: 2 } },
  };
}

function showWorst(app) {
  const { store, headers } = app;
  const items = app.worst.map((row) => {
    const latency = make("b", "", duration(store.response[row]));
    const what = make("span", "", `${headers.typeName(row)}, frame ${store.number[row]}`);
    const button = make("button", row === app.selected ? "current" : "", latency, what);
    button.type = "button";
    button.dataset.row = String(row);
    button.addEventListener("click", () => app.go(row));
    return button;
  });
  app.aside.replaceChildren(...(items.length > 0 ? [make("h3", "", "Longest"), ...items] : []));
}

async function drawDistribution(app) {
  const types = latenciesByType(app.store, app.headers, plotRows());
  const most = types.reduce((m, { sorted }) => Math.max(m, sorted[sorted.length - 1]), 0);
  const unit = unitOf(most / 2);
  const tail = app.options.tail;
  const traces = types.map(({ name, tint, sorted }) => {
    const { x, y } = distribution(sorted, 1000);
    const shares = tail ? y.map((share) => 1 - share + 1 / sorted.length) : y;
    return {
      type: "scatter", mode: "lines", name, x: x.map((ps) => ps / unit.ps), y: shares, line: { shape: "hv", width: 2, color: colour(tint) },
      hovertemplate: tail ? "%{y:.3~p} take %{x} or longer" : "%{y:.4~p} within %{x}",
    };
  });
  const y = tail ? { type: "log", exponentformat: "power", dtick: 1 } : { tickformat: ".0%", range: [0, 1.02] };
  const xAxis = axis(`Latency, ${unit.name}`, { rangemode: "tozero", hoverformat: ",.6~f", ticksuffix: "", type: tail ? "log" : "linear" });
  showQuantiles(app, types);
  await draw(app.host, traces, layoutOf(app.host, xAxis, [tail ? "Share at least this long" : "Share of requests"], { y, hovermode: "x" }));
  return types.length > 0 ? "" : nothing("No request was answered.");
}

function showQuantiles(app, types) {
  const children = [];
  for (const { name, sorted } of types) {
    children.push(make("h3", "", `${name}, ${grouped(sorted.length)}`));
    const shares = [["least", 0], ["median", 0.5], ["90 %", 0.9], ["99 %", 0.99], ["99.9 %", 0.999], ["most", 1]];
    for (const [label, share] of shares) {
      const button = make("button", "", make("b", "", duration(quantile(sorted, share))), make("span", "", label));
      button.type = "button";
      button.addEventListener("click", () => app.goToLatency(name, quantile(sorted, share)));
      children.push(button);
    }
  }
  app.aside.replaceChildren(...children);
}

async function drawTags(app) {
  const { groups, names } = tagPoints(app.store, app.headers, plotRows(), rowsThatFit(app.host, MAX_LANES));
  const tags = groups.list().reduce((m, group) => group.y.reduce((a, b) => Math.max(a, b), m), 0);
  const room = 0.04 * (tags + 1) + 0.4;
  const more = { range: [-room, tags + room], rangemode: "normal", zeroline: false };
  const spans = (scale, inside, many) => (many ? [] : spanTraces(app.store, inside, scale));
  const any = await drawCloud(app, groups, { title: "Tag", more, names: names.length > 1 ? names : undefined }, 1, spans);
  return any ? "" : nothing("No non-posted requests and no completions.");
}

// Lines from each request to its last completion: the time during which its tag is in use.
function spanTraces(store, groups, scale) {
  return groups.filter((group) => group.class === "NP").map((group) => {
    const answered = group.row.map((row, i) => [row, i]).filter(([row]) => store.lastAnswer[row] >= 0);
    return {
      type: "scatter",
      mode: "lines",
      hoverinfo: "skip",
      showlegend: false,
      yaxis: group.facet === 0 ? "y" : `y${group.facet + 1}`,
      line: { width: 1, color: colour("dllp") },
      opacity: 0.5,
      x: answered.flatMap(([row, i]) => [scale.x(group.x[i]), scale.x(store.time[store.lastAnswer[row]]), null]),
      y: answered.flatMap(([, i]) => [group.y[i], group.y[i], null]),
    };
  });
}

async function drawThroughput(app) {
  const { store, headers } = app;
  const time = timeInView(app);
  const bins = Math.max(40, Math.floor(app.host.clientWidth / 5));
  const edges = edgesInView(app, bins);
  const lanes = throughput(store, headers, plotRows(), edges, app.options.dataOnly ? headers.payload : headers.tlpBytes);
  const x = edges.map(time.toX);
  const shown = busiest(lanes, rowsThatFit(app.host, MAX_LANES));
  const named = new Set();
  const traces = shown.flatMap(([, classes], i) => rateTraces(classes, x, i, named));
  await drawLanes(app, time, "Gb/s", shown.map(([lane]) => headers.lane.list[lane].name), traces);
  if (lanes.size === 0) return nothing("No TLPs.");
  const more = lanes.size > shown.length ? `; the busiest ${shown.length} of ${lanes.size} directions` : "";
  return `${app.options.dataOnly ? "Data" : "TLPs, header to digest"}, mean of ${duration(((x[x.length - 1] - x[0]) * time.unit.ps) / bins)}${more}`;
}

/** Returns the `count` lanes with the most traffic, in the order of their first record. */
function busiest(lanes, count) {
  const total = ([, classes]) => Object.values(classes).reduce((sum, rates) => sum + rates.reduce((a, b) => a + b, 0), 0);
  const most = [...lanes].sort((a, b) => total(b) - total(a) || a[0] - b[0]).slice(0, count);
  return most.sort((a, b) => a[0] - b[0]);
}

/** Draws stacked plots, one per lane. Each has a caption with the lane and the unit. */
function drawLanes(app, time, unit, names, traces) {
  const titles = names.length > 0 ? names.map(() => "") : [unit];
  const annotations = captions(names.map((name) => `${name}: ${unit}`));
  return draw(app.host, traces, layoutOf(app.host, time.axis, titles, { hovermode: false, annotations, time }));
}

/** Returns values with the last one repeated, so that the last step reaches its end. */
function withLast(values) {
  return [...values, values[values.length - 1]];
}

function isNewIn(named, name) {
  const isNew = !named.has(name);
  named.add(name);
  return isNew;
}

function rateTraces(classes, x, place, named) {
  const names = Object.keys(CLASS_NAMES).filter((name) => classes[name]);
  return names.map((name) => ({
    type: "scatter",
    mode: "lines",
    name: CLASS_NAMES[name],
    legendgroup: name,
    showlegend: isNewIn(named, name),
    stackgroup: `lane${place}`,
    line: { shape: "hv", width: 1, color: colour(CLASS_COLOURS[name]) },
    x,
    y: withLast(Array.from(classes[name], (bits) => bits / 1e9)),
    yaxis: place === 0 ? "y" : `y${place + 1}`,
    meta: { unit: " Gb/s" },
  }));
}

async function drawOutstanding(app) {
  const most = 8;
  const time = timeInView(app);
  const series = outstanding(app.store, app.headers, plotRows(), most);
  const traces = series.flatMap(({ name, steps }, i) => {
    const look = { name, colour: colour(`series${i % SERIES_COLOURS}`), dash: i >= SERIES_COLOURS ? "dot" : "solid", yaxis: "y", showlegend: true };
    return stepTraces(app, steps, time, 1, look);
  });
  await draw(app.host, traces, layoutOf(app.host, time.axis, ["Outstanding requests"], { hovermode: false, time }));
  return series.length > 0 ? `By requester${bandNote(traces)}` : nothing("No non-posted requests.");
}

/** Returns a trace of steps. Many steps become their mean, with a band from minimum to maximum. */
function stepTraces(app, steps, time, scale, look) {
  const bands = decimated(steps, edgesInView(app, Math.floor(app.host.clientWidth / 2)));
  const x = Array.from(bands.x, time.toX);
  const values = (list) => Array.from(list, (value) => value * scale);
  const base = { type: "scatter", mode: "lines", x, yaxis: look.yaxis, legendgroup: look.name, name: look.name };
  const edge = { ...base, line: { width: 0, color: look.colour, shape: "linear" }, showlegend: false };
  const line = { ...base, y: values(bands.y), showlegend: look.showlegend, meta: { unit: "" },
    line: { shape: bands.least ? "linear" : "hv", width: 1.5, color: look.colour, dash: look.dash } };
  if (!bands.least) return [line];
  const fill = { fill: "tonexty", fillcolor: `${look.colour}40` };
  return [{ ...edge, y: values(bands.least) }, { ...edge, y: values(bands.most), ...fill }, line];
}

function bandNote(traces) {
  return traces.some((trace) => trace.fill) ? "; mean, band from minimum to maximum" : "";
}

async function drawCredits(app) {
  const time = timeInView(app);
  const what = ["header", "unacked"].find((name) => app.options[name]) ?? "data";
  const lanes = what === "unacked" ? unackedLanes(app) : creditLanes(app, what);
  const shown = lanes.sort((a, b) => leastLeft(a) - leastLeft(b)).slice(0, rowsThatFit(app.host, MAX_LANES));
  const known = new Set();
  const traces = shown.flatMap(({ series }, i) => series.flatMap((s) => {
    const yaxis = i === 0 ? "y" : `y${i + 1}`;
    const look = { name: s.name, colour: colour(s.tint), yaxis, showlegend: isNewIn(known, s.name) };
    return stepTraces(app, s.steps, time, what === "data" ? 16 : 1, look);
  }));
  const label = { data: "data left, B", header: "headers left", unacked: "no Ack yet, B" }[what];
  await drawLanes(app, time, label, shown.map(({ name }) => name), traces);
  const more = lanes.length > shown.length ? `; the scarcest ${shown.length} of ${lanes.length} directions` : "";
  return lanes.length > 0 ? creditNote(lanes, what) + more + bandNote(traces) : noCredits(app, what);
}

/** Returns the minimum of a lane's remaining credits as a share of the maximum. Lanes are sorted by it. */
function leastLeft({ series }) {
  const shares = series.map(({ steps: { y } }) => {
    const [least, most] = y.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]);
    return most > 0 ? least / most : 1;
  });
  return Math.min(...shares);
}

function creditLanes(app, part) {
  const byLane = new Map();
  app.pools ??= creditPools(app.store, app.headers);
  for (const pool of app.pools) {
    if (pool[part].infinite) continue;
    if (!byLane.has(pool.lane)) byLane.set(pool.lane, []);
    byLane.get(pool.lane).push({ name: pool.name, tint: CLASS_COLOURS[pool.class], steps: pool[part].steps, relative: !pool.initialized });
  }
  return [...byLane].map(([lane, series]) => ({ name: app.headers.lane.list[lane].name, series }));
}

function unackedLanes(app) {
  const lanes = unacknowledged(app.store, app.headers);
  return [...lanes].map(([lane, { steps }]) => ({ name: app.headers.lane.list[lane].name, series: [{ name: "TLPs", tint: "accent", steps }] }));
}

/** Returns the reason for an empty plot, and a command that records the missing data. */
function noCredits(app, what) {
  const how = "riser run LAB.toml --capture OUT.pcapng --dllps";
  if (what === "unacked") return nothing("This capture contains no Acks. Record DLLPs with the TLPs:", how);
  if (app.pools.length > 0) return nothing("All advertised credits are infinite.");
  return nothing("This capture contains no flow-control DLLPs. Record them with the TLPs:", how);
}

function creditNote(lanes, what) {
  if (what === "unacked") return "Sent and not acknowledged yet";
  const relative = lanes.some(({ series }) => series.some((s) => s.relative));
  return relative ? "No InitFC was captured: 0 is the largest value seen" : "Seen at the tap; infinite credits are not shown";
}

async function drawSummary(app) {
  const { types, requesters } = summaryOf(app.store, app.headers, plotRows());
  const byType = [...types].sort((a, b) => b[1].rows - a[1].rows);
  const typeRows = byType.map(([name, sum]) => [filterLink(app, typeFilter(app.store, name), name), grouped(sum.rows), sum.bytes > 0 ? grouped(sum.bytes) : ""]);
  const byRequester = [...requesters].sort((a, b) => b[1].requests - a[1].requests).slice(0, 100);
  const requesterRows = byRequester.map(([id, sum]) => [
    filterLink(app, `requester=${idText(id)}`, idText(id)),
    grouped(sum.requests),
    grouped(sum.complete),
    grouped(sum.bytes),
    sum.complete > 0 ? duration(sum.latency / sum.complete) : "",
  ]);
  app.summary.replaceChildren(
    tableOf("Types", ["Type", "Records", "Data, B"], typeRows),
    tableOf("Non-posted requests", ["Requester", "Requests", "Answered", "Requested, B", "Mean latency"], requesterRows),
    tableOf("Transactions of the whole capture", ["", ""], transactionRows(app.store.meta.transactions)),
  );
  return "";
}

function typeFilter(store, name) {
  const isDllp = store.meta.formats.every((format) => format.name !== name) && name !== "error" && name !== "other";
  return isDllp ? `dllp=${name}` : `type=${name}`;
}

function filterLink(app, expression, text) {
  const button = make("button", "", text);
  button.type = "button";
  button.title = `Filter: ${expression}`;
  button.addEventListener("click", () => app.setFilter(expression));
  return button;
}

function transactionRows(counts) {
  return Object.entries(counts)
    .filter(([, count]) => count > 0)
    .map(([name, count]) => [name.replaceAll("_", " "), grouped(count)]);
}

function tableOf(title, heads, rows) {
  const line = (cells, tag) => make("tr", "", ...cells.map((cell) => make(tag, "", cell)));
  const table = make("table", "", line(heads, "th"), ...rows.map((cells) => line(cells, "td")));
  return make("div", "", make("h3", "", title), table);
}
