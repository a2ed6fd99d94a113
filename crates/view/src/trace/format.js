// SPDX-License-Identifier: Apache-2.0 OR MIT
// Formats numbers as text. Does not access the page.

const PS_PER_US = 1e6;

/** Returns a value with at most `digits` decimals, without trailing zeros. */
function trimmed(value, digits) {
  return value.toFixed(digits).replace(/\.?0+$/, "");
}

/** Returns a whole number with its digits in groups: `1,234,567`. */
function grouped(number) {
  return Math.round(number).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Returns picoseconds in a suitable unit: `600 ns`, `1.25 µs`. With `all`, keeps trailing zeros, as columns need. */
function duration(ps, digits = 3, all = false) {
  if (!Number.isFinite(ps)) return "";
  const unit = unitOf(Math.abs(ps));
  const value = ps / unit.ps;
  return `${all ? value.toFixed(digits) : trimmed(value, digits)} ${unit.name}`;
}

const UNITS = [
  { name: "s", ps: 1e12 },
  { name: "ms", ps: 1e9 },
  { name: "µs", ps: 1e6 },
  { name: "ns", ps: 1e3 },
];

/** Returns the largest unit that is not longer than `ps` picoseconds; ns for shorter times. */
function unitOf(ps) {
  return UNITS.find((unit) => ps >= unit.ps) ?? UNITS[UNITS.length - 1];
}

/** Returns the time since the first frame in microseconds, in the resolution of the capture. */
function timeText(ps, digits) {
  return (ps / PS_PER_US).toFixed(Math.max(0, digits - 6));
}

/** Returns an ID as `bus:device.function`. */
function idText(id) {
  const device = (id >> 3) & 0x1f;
  return `${hex(id >> 8, 2)}:${hex(device, 2)}.${id & 7}`;
}

/** Returns a number in hexadecimal with at least `width` digits. */
function hex(value, width) {
  return value.toString(16).padStart(width, "0");
}

/** Returns the bytes of header DWs, in their order on the wire. */
function bytesText(dws) {
  return dws.map((dw) => hex(dw >>> 0, 8).replace(/..(?=.)/g, "$& ")).join("  ");
}

/** Returns bits per second as `3.94 Gb/s`. */
function rateText(bitsPerSecond) {
  if (bitsPerSecond >= 1e9) return `${trimmed(bitsPerSecond / 1e9, 2)} Gb/s`;
  return `${trimmed(bitsPerSecond / 1e6, 2)} Mb/s`;
}

/** Returns picoseconds, given as a BigInt, in seconds with all digits. */
function secondsText(ps) {
  const digits = ps.toString().padStart(13, "0");
  return `${digits.slice(0, -12)}.${digits.slice(-12)}`;
}

const DURATION_DIGITS = { ps: 0, ns: 3, us: 6, ms: 9, s: 12 };

/** Parses a duration such as `1.5us` exactly to picoseconds; undefined for other text. */
function parseDurationBig(text) {
  const parts = /^(\d+)(?:\.(\d*))?(ps|ns|us|ms|s)$/.exec(text);
  const digits = DURATION_DIGITS[parts?.[3]];
  const fraction = parts?.[2] ?? "";
  if (!parts || fraction.length > digits) return undefined;
  return BigInt(parts[1] + fraction.padEnd(digits, "0"));
}

/** Parses a duration to a number; NaN for other text. */
function parseDuration(text) {
  return Number(parseDurationBig(text) ?? NaN);
}
