// SPDX-License-Identifier: Apache-2.0 OR MIT
// The data of the plots, from the rows of a store: points, steps, rates and quantiles. Times and latencies are in
// picoseconds. `rows` are the rows that pass the filter, or null for all. Does not access the page.

/** Calls `see(row)` for each row of `rows`, or of the whole store. */
function forRows(store, rows, see) {
  if (rows) for (const row of rows) see(row);
  else for (let row = 0; row < store.count; row++) see(row);
}

/** Returns the first records of the transactions that contain the rows, each once and in order. */
function requestsOf(store, rows) {
  const seen = new Uint8Array(store.count);
  let count = 0;
  forRows(store, rows, (row) => {
    const request = transactionOf(store, row);
    if (request < 0 || seen[request] !== 0) return;
    seen[request] = 1;
    count++;
  });
  const requests = new Uint32Array(count);
  for (let row = 0, at = 0; at < count; row++) if (seen[row]) requests[at++] = row;
  return requests;
}

/** Collects points by group. A group has `name`, `class`, `tint`, `facet`, and the x, y and row of each point. */
class Groups {
  constructor() {
    this.byKey = new Map();
  }
  add(headers, facet, x, y, row) {
    const name = headers.typeName(row);
    const key = `${facet} ${name}`;
    let group = this.byKey.get(key);
    if (!group) {
      group = { name, class: headers.className(row), tint: headers.tint(row), facet, x: [], y: [], row: [] };
      this.byKey.set(key, group);
    }
    group.x.push(x);
    group.y.push(y);
    group.row.push(row);
  }
  list() {
    return [...this.byKey.values()].sort((a, b) => a.facet - b.facet || (a.name < b.name ? -1 : 1));
  }
}

/** Returns latencies over the time of the request, in one group per type of request. */
function latencyPoints(store, headers, rows) {
  const groups = new Groups();
  for (const request of requestsOf(store, rows)) {
    const latency = store.response[request];
    if (latency >= 0) groups.add(headers, 0, store.time[request], latency, request);
  }
  return groups;
}

/** Returns the requests with the `count` longest latencies as rows, longest first. Equal ones are in order of time. */
function worstLatencies(store, rows, count) {
  const worst = [];
  for (const request of requestsOf(store, rows)) {
    const latency = store.response[request];
    if (!(latency >= 0)) continue;
    if (worst.length === count && latency <= store.response[worst[count - 1]]) continue;
    let at = worst.length;
    while (at > 0 && store.response[worst[at - 1]] < latency) at--;
    worst.splice(at, 0, request);
    if (worst.length > count) worst.pop();
  }
  return worst;
}

/** Returns tags over time, as in Figures 13 and 14 of the NetTLP paper: non-posted requests and their completions. There is
 *  one plot per requester, but with more than `most` requesters one plot for all. `names` has the requesters. */
function tagPoints(store, headers, rows, most) {
  const groups = new Groups();
  const ids = new Map();
  const tagged = (row) => store.kind[row] === KIND.tlp && headers.className(row) !== "P";
  forRows(store, rows, (row) => {
    if (tagged(row) && !ids.has(headers.requester(row))) ids.set(headers.requester(row), ids.size);
  });
  const apart = ids.size <= most;
  forRows(store, rows, (row) => {
    if (!tagged(row)) return;
    const facet = apart ? ids.get(headers.requester(row)) : 0;
    groups.add(headers, facet, store.time[row], headers.tag(row), row);
  });
  return { groups, names: apart ? [...ids.keys()].map(idText) : [`${ids.size} requesters`] };
}

/** Returns sorted latencies by type of request: { name, tint, sorted }. */
function latenciesByType(store, headers, rows) {
  return latencyPoints(store, headers, rows).list().map(({ name, tint, y }) => ({ name, tint, sorted: Float64Array.from(y).sort() }));
}

/** Returns the quantile `q` of sorted values without interpolation: the smallest value such that at least the share `q` of the
 *  values is not larger. */
function quantile(sorted, q) {
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(q * sorted.length) - 1))];
}

/** Returns the points of a cumulative distribution. If there are many values, returns `steps` evenly spaced points and the
 *  exact tail. */
function distribution(sorted, steps) {
  const n = sorted.length;
  const places = new Set();
  for (let i = 0; i <= steps; i++) places.add(Math.round((i / steps) * (n - 1)));
  for (let i = Math.max(0, n - 100); i < n; i++) places.add(i);
  const order = [...places].sort((a, b) => a - b);
  return { x: order.map((i) => sorted[i]), y: order.map((i) => (i + 1) / n) };
}

/** Returns bits per second by lane and class between consecutive times in `edges`. `bytesOf(row)` returns the number of bytes
 *  to count. */
function throughput(store, headers, rows, edges, bytesOf) {
  const lanes = new Map();
  const bins = edges.length - 1;
  forRows(store, rows, (row) => {
    if (store.kind[row] !== KIND.tlp) return;
    const time = store.time[row];
    if (time < edges[0] || time > edges[bins]) return;
    const lane = headers.lane.of(row);
    if (!lanes.has(lane)) lanes.set(lane, {});
    const classes = lanes.get(lane);
    const sums = (classes[headers.className(row)] ??= new Float64Array(bins));
    const next = lowerBound(edges, time);
    sums[Math.min(bins - 1, edges[next] === time ? next : next - 1)] += bytesOf(row);
  });
  for (const classes of lanes.values()) {
    for (const sums of Object.values(classes)) sums.forEach((sum, i) => (sums[i] = (sum * 8e12) / Math.max(1, edges[i + 1] - edges[i])));
  }
  return lanes;
}

/** Steps: values that change at certain times. A time before the previous one counts as the previous one. */
class Steps {
  constructor() {
    this.x = [];
    this.y = [];
  }
  add(time, value) {
    const last = this.x.length > 0 ? this.x[this.x.length - 1] : -Infinity;
    this.x.push(Math.max(time, last));
    this.y.push(value);
  }
}

/** Returns the end times of requests whose tag was reused without a completion, by row. */
function reusedTags(store, headers) {
  const ended = new Map();
  const newest = new Map();
  for (let row = 0; row < store.count; row++) {
    if (store.role[row] !== ROLE.request) continue;
    const lane = store.meta.interfaces[store.interface[row] - 1]?.link ?? 0;
    const key = (lane * 65_536 + headers.requester(row)) * 1024 + headers.tag(row);
    const before = newest.get(key);
    if (before !== undefined && !(store.time[store.lastAnswer[before]] <= store.time[row] && store.response[before] >= 0)) {
      ended.set(before, store.time[row]);
    }
    newest.set(key, row);
  }
  return ended;
}

/** Returns the number of outstanding requests as steps, for the `most` requesters with the most requests. */
function outstanding(store, headers, rows, most) {
  const reused = reusedTags(store, headers);
  const byRequester = new Map();
  for (const request of requestsOf(store, rows)) {
    const id = headers.requester(request);
    if (!byRequester.has(id)) byRequester.set(id, { starts: [], ends: [] });
    const spans = byRequester.get(id);
    spans.starts.push(store.time[request]);
    const answered = store.response[request] >= 0 ? store.time[store.lastAnswer[request]] : Infinity;
    const end = Math.min(answered, reused.get(request) ?? Infinity);
    if (end < Infinity) spans.ends.push(end);
  }
  const largest = [...byRequester].sort((a, b) => b[1].starts.length - a[1].starts.length || a[0] - b[0]).slice(0, most);
  return largest.map(([id, spans]) => ({ name: idText(id), steps: stepsOfSpans(spans) }));
}

// A completion at the same time as the next request is counted first.
function stepsOfSpans({ starts, ends }) {
  const [from, to] = [Float64Array.from(starts).sort(), Float64Array.from(ends).sort()];
  const steps = new Steps();
  let [started, ended] = [0, 0];
  while (started < from.length || ended < to.length) {
    const isEnd = ended < to.length && (started === from.length || to[ended] <= from[started]);
    const time = isEnd ? to[ended++] : from[started++];
    steps.add(time, started - ended);
  }
  return steps;
}

/** Returns the steps between the first and the last of `edges`. A few steps are returned unchanged: { x, y }. Many steps become the
 *  minimum, maximum and time average between consecutive edges: { x, least, most, y }. */
function decimated(steps, edges) {
  const { x, y } = steps;
  const columns = edges.length - 1;
  const from = Math.max(0, lowerBound(x, edges[0]) - 1);
  const to = Math.min(x.length, lowerBound(x, edges[columns]) + 1);
  if (to - from <= columns * 2) return { x: x.slice(from, to), y: y.slice(from, to) };
  const bands = { x: [], y: [], least: [], most: [] };
  for (let at = from, column = 0; column < columns && at < to; column++) {
    const [begin, end] = [edges[column], edges[column + 1]];
    const next = lowerBound(x, end, at);
    if (end > x[from] && begin < x[to - 1]) addBand(bands, steps, Math.max(from, at - 1), next, begin, end);
    at = next;
  }
  return bands;
}

// Adds the values between `begin` and `end`, which are at places from `at` to before `next`.
function addBand(bands, { x, y }, at, next, begin, end) {
  let [least, most, sum, known] = [Infinity, -Infinity, 0, 0];
  for (let i = at; i < next; i++) {
    const lasts = Math.min(i + 1 < x.length ? x[i + 1] : end, end) - Math.max(x[i], begin);
    if (lasts < 0) continue;
    [least, most] = [Math.min(least, y[i]), Math.max(most, y[i])];
    [sum, known] = [sum + y[i] * lasts, known + lasts];
  }
  if (least === Infinity) return;
  bands.x.push((begin + end) / 2);
  bands.least.push(least);
  bands.most.push(most);
  bands.y.push(known > 0 ? sum / known : most);
}

/** Returns the first place whose value is at least `value`, in ascending values. */
function lowerBound(values, value, from = 0) {
  let [low, high] = [from, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Counts rows by type, and transactions by requester, for the summary. */
function summaryOf(store, headers, rows) {
  const types = new Map();
  const requesters = new Map();
  forRows(store, rows, (row) => {
    const type = headers.typeName(row);
    const sum = types.get(type) ?? { rows: 0, bytes: 0 };
    sum.rows++;
    sum.bytes += headers.format(row) ? headers.payload(row) : 0;
    types.set(type, sum);
  });
  for (const request of requestsOf(store, rows)) {
    const id = headers.requester(request);
    const sum = requesters.get(id) ?? { requests: 0, complete: 0, latency: 0, bytes: 0 };
    sum.requests++;
    if (store.response[request] >= 0) {
      sum.complete++;
      sum.latency += store.response[request];
      sum.bytes += headers.requestBytes(request);
    }
    requesters.set(id, sum);
  }
  return { types, requesters };
}
