// SPDX-License-Identifier: Apache-2.0 OR MIT
// The time axis of the plots. Long idle times can be folded to a narrow band, so that the events before and after
// them are visible together. Times and positions on the axis are picoseconds. Without folds, both are equal.

/** Maximum number of folded idle times. */
const MAX_FOLDS = 60;
/** An idle time is long if it has at least this share of the time that is not folded. */
const LONG_SHARE = 0.5;
/** It must also be this many times as long as the longest idle time that is not folded. So idle times of similar length are
 *  either all folded or none of them is. */
const LONG_TIMES = 2;
/** Shorter idle times are never folded. */
const LEAST_FOLD_PS = 1e6;
/** Width of the shortest fold, and of all folds together, as shares of the time that is not folded. */
const FOLD_SHARE = 0.03;
const ALL_FOLDS_SHARE = 0.3;
/** Share of the time that is not folded that stays visible at each edge of a fold. */
const EDGE_SHARE = 0.01;

/** Returns the idle times as { from, to }: no TLP is sent, and no request is outstanding. Acks and flow control do not count,
 *  since an idle link sends them too. In a capture without TLPs, an idle time is a time without records. */
function idleStretches(store) {
  const any = store.kind.subarray(0, store.count).includes(KIND.tlp);
  const stretches = [];
  let last = 0;
  const see = (time, until) => {
    if (time - last >= LEAST_FOLD_PS) stretches.push({ from: last, to: time });
    last = Math.max(last, time, until);
  };
  for (let row = 0; row < store.count; row++) {
    const answer = store.role[row] === ROLE.request ? store.lastAnswer[row] : -1;
    const until = answer >= 0 ? store.time[answer] : 0;
    if (store.number[row] > 0 && (!any || store.kind[row] === KIND.tlp)) see(store.time[row], until);
  }
  see(store.end, 0);
  return stretches;
}

/** Returns the long idle times in order, and the remaining time. */
function longStretches(stretches, end) {
  const length = ({ from, to }) => to - from;
  const longest = [...stretches].sort((a, b) => length(b) - length(a) || a.from - b.from);
  let found = { folds: [], left: end };
  let left = end;
  for (let count = 1; count <= Math.min(longest.length, MAX_FOLDS); count++) {
    const shortest = length(longest[count - 1]);
    left -= shortest;
    const next = count < longest.length ? length(longest[count]) : 0;
    const isLong = shortest >= LONG_SHARE * left && shortest >= LONG_TIMES * next;
    const folds = longest.slice(0, count).sort((a, b) => a.from - b.from);
    if (isLong && leavesSpans(folds, end)) found = { folds, left };
  }
  return found;
}

/** Returns whether the folded timeline is longer than single points in time. If most parts between the folds were moments, the plot would
 *  show only folds. */
function leavesSpans(folds, end) {
  const starts = [0, ...folds.map((fold) => fold.to)];
  const stops = [...folds.map((fold) => fold.from), end];
  return 2 * starts.filter((start, i) => stops[i] > start).length >= starts.length;
}

/** Converts idle times to folds, without their visible edges. The shortest has one unit of width, and each power of ten in
 *  length adds a unit. */
function asFolds(stretches, left) {
  const shortest = Math.min(...stretches.map(({ from, to }) => to - from));
  const times = stretches.map(({ from, to }) => 1 + Math.log10((to - from) / shortest));
  const once = Math.min(FOLD_SHARE, ALL_FOLDS_SHARE / times.reduce((sum, one) => sum + one, 0)) * left;
  return stretches.map(({ from, to }, i) => {
    const edge = Math.min(EDGE_SHARE * left, (to - from) / 4);
    return { from: from + edge, to: to - edge, idle: to - from, width: times[i] * once };
  });
}

/** A timeline without folds. */
const PLAIN_TIME = { folds: [], toAxis: (ps) => ps, toTime: (at) => at };

/** Returns the timeline of a capture with folded long idle times. `most` is true if they are most of its time. */
function foldedTime(store) {
  const long = longStretches(idleStretches(store), store.end);
  if (long.folds.length === 0) return { ...PLAIN_TIME, most: false };
  const folds = asFolds(long.folds, long.left);
  let removed = 0;
  for (const fold of folds) {
    fold.at = fold.from - removed;
    removed += fold.to - fold.from - fold.width;
  }
  return { folds, toAxis: (ps) => placeOfTime(folds, ps), toTime: (at) => timeOfPlace(folds, at), most: removed > store.end / 2 };
}

/** Returns the last fold whose `key` is at most a value; undefined without such a fold. */
function foldBefore(folds, key, value) {
  let [low, high] = [0, folds.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (folds[middle][key] <= value) low = middle + 1;
    else high = middle;
  }
  return folds[low - 1];
}

function placeOfTime(folds, ps) {
  const fold = foldBefore(folds, "from", ps);
  if (!fold) return ps;
  if (ps >= fold.to) return fold.at + fold.width + ps - fold.to;
  return fold.at + ((ps - fold.from) / (fold.to - fold.from)) * fold.width;
}

function timeOfPlace(folds, at) {
  const fold = foldBefore(folds, "at", at);
  if (!fold) return at;
  if (at >= fold.at + fold.width) return fold.to + at - fold.at - fold.width;
  return fold.from + ((at - fold.at) / fold.width) * (fold.to - fold.from);
}

/** Returns the times that divide a range into `count` parts of equal width on the axis, and the ends of folds. */
function edgesOf(timeline, [from, to], count) {
  const [begin, end] = [timeline.toAxis(from), timeline.toAxis(to)];
  const edges = Array.from({ length: count + 1 }, (_, i) => timeline.toTime(begin + (i / count) * (end - begin)));
  [edges[0], edges[count]] = [from, to];
  const ends = timeline.folds.flatMap((fold) => [fold.from, fold.to]).filter((ps) => ps > from && ps < to);
  return ends.length === 0 ? edges : [...new Set([...edges, ...ends])].sort((a, b) => a - b);
}

/** Returns the x axis for a range of times: its `unit`, `toX` and `toTime` that convert between picoseconds and positions,
 *  plotly's `axis`, and the marks of folds. */
function timeAxis(timeline, range) {
  const ends = range.map(timeline.toAxis);
  const unit = unitOf((ends[1] - ends[0]) / 5);
  const more = { range: ends.map((at) => at / unit.ps), hoverformat: ",.6~f" };
  const folds = timeline.folds.filter((fold) => fold.to > range[0] && fold.from < range[1]);
  if (folds.length > 0) Object.assign(more, foldedTicks(timeline, range, unit));
  const idle = folds.length > 0 ? `; ${foldsText(folds)}` : "";
  return {
    unit,
    toX: (ps) => timeline.toAxis(ps) / unit.ps,
    toTime: (x) => timeline.toTime(x * unit.ps),
    axis: axis(`Time since first frame, ${unit.name}${idle}`, more),
    ...foldMarks(folds, ends, unit),
  };
}

/** Returns ticks at multiples of a time step, outside of folds. */
function foldedTicks(timeline, [from, to], unit) {
  const length = timeline.toAxis(to) - timeline.toAxis(from);
  const step = niceStep(length / 12);
  const digits = Math.max(0, Math.round(Math.log10(unit.ps)) - Math.floor(Math.log10(step) + 1e-9));
  const starts = [from, ...timeline.folds.map((fold) => fold.to)];
  const stops = [...timeline.folds.map((fold) => fold.from), to];
  const ticks = starts.flatMap((start, i) => stepsWithin(Math.max(start, from), Math.min(stops[i], to), step));
  // The text of a tick directly after a fold may overlap the previous one.
  const apart = ticks.filter((ps, i) => i === 0 || timeline.toAxis(ps) - timeline.toAxis(ticks[i - 1]) > 0.06 * length);
  const texts = apart.map((ps) => (ps / unit.ps).toFixed(digits).replace(/\B(?=(\d{3})+(?!\d))(?<!\.\d*)/g, ","));
  return { tickmode: "array", tickvals: apart.map((ps) => timeline.toAxis(ps) / unit.ps), ticktext: texts };
}

function stepsWithin(from, to, step) {
  const first = Math.ceil(from / step);
  const count = Math.floor(to / step) - first + 1;
  return Array.from({ length: Math.max(0, count) }, (_, i) => (first + i) * step);
}

/** Returns the smallest 1, 2 or 5 times a power of ten that is at least `least`. */
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return [1, 2, 5, 10].map((times) => times * power).find((step) => step >= least * 0.999);
}

/** Returns the number of folds in view and their total length. */
function foldsText(folds) {
  const total = folds.reduce((sum, fold) => sum + fold.idle, 0);
  return `${folds.length} idle ${folds.length === 1 ? "stretch" : "stretches"} folded, ${duration(total, 2)}`;
}

/** Returns folds as bands with their lengths. */
function foldMarks(folds, ends, unit) {
  const shapes = folds.map((fold) => ({
    type: "rect", layer: "below", xref: "x", yref: "paper", x0: fold.at / unit.ps, x1: (fold.at + fold.width) / unit.ps, y0: 0, y1: 1,
    fillcolor: colour("line"), opacity: 0.6, line: { width: 1, color: colour("soft"), dash: "dot" },
  }));
  const hasRoom = (fold) => fold.width > 0.012 * (ends[1] - ends[0]);
  const annotations = folds.filter(hasRoom).map((fold) => ({
    text: `${duration(fold.idle, 2)} idle`, textangle: -90, showarrow: false, xref: "x", yref: "paper",
    x: (fold.at + fold.width / 2) / unit.ps, y: 1, yanchor: "top", font: { size: 11, color: colour("ink") },
  }));
  return { shapes, annotations };
}
