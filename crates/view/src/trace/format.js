// SPDX-License-Identifier: Apache-2.0 OR MIT
// Numbers as text. Never touches the page.

const PS_PER_US = 1e6;

/** A value with at most `digits` digits behind the point, without zeros at its end. */
function trimmed(value, digits) {
  return value.toFixed(digits).replace(/\.?0+$/, "");
}

/** `1,234,567`: a whole number, grouped for reading. */
function grouped(number) {
  return Math.round(number).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Picoseconds in the unit that suits them: `600 ns`, `1.25 µs`; with `all` its digits, for columns. */
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

/** The largest unit that `ps` picoseconds are at least one of; ns for less. */
function unitOf(ps) {
  return UNITS.find((unit) => ps >= unit.ps) ?? UNITS[UNITS.length - 1];
}

/** Time since the first frame in microseconds, with as many digits as the capture knows. */
function timeText(ps, digits) {
  return (ps / PS_PER_US).toFixed(Math.max(0, digits - 6));
}

/** `bus:device.function` of an ID. */
function idText(id) {
  const device = (id >> 3) & 0x1f;
  return `${hex(id >> 8, 2)}:${hex(device, 2)}.${id & 7}`;
}

/** A number in hexadecimal with at least `width` digits. */
function hex(value, width) {
  return value.toString(16).padStart(width, "0");
}

/** Bytes of the DWs of a header, in their order on the wire. */
function bytesText(dws) {
  return dws.map((dw) => hex(dw >>> 0, 8).replace(/..(?=.)/g, "$& ")).join("  ");
}

/** Bits a second as `3.94 Gb/s`. */
function rateText(bitsPerSecond) {
  if (bitsPerSecond >= 1e9) return `${trimmed(bitsPerSecond / 1e9, 2)} Gb/s`;
  return `${trimmed(bitsPerSecond / 1e6, 2)} Mb/s`;
}

/** Picoseconds, as a BigInt, in seconds and exactly. */
function secondsText(ps) {
  const digits = ps.toString().padStart(13, "0");
  return `${digits.slice(0, -12)}.${digits.slice(-12)}`;
}

const DURATION_DIGITS = { ps: 0, ns: 3, us: 6, ms: 9, s: 12 };

/** A duration such as `1.5us` in picoseconds, exactly; undefined where it is none. */
function parseDurationBig(text) {
  const parts = /^(\d+)(?:\.(\d*))?(ps|ns|us|ms|s)$/.exec(text);
  const digits = DURATION_DIGITS[parts?.[3]];
  const fraction = parts?.[2] ?? "";
  if (!parts || fraction.length > digits) return undefined;
  return BigInt(parts[1] + fraction.padEnd(digits, "0"));
}

/** The same as a number; NaN where it is none. */
function parseDuration(text) {
  return Number(parseDurationBig(text) ?? NaN);
}
