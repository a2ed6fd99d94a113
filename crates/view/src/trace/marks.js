// SPDX-License-Identifier: Apache-2.0 OR MIT
// Bookmarks: rows that a reader wants to find again, each with a note. They stand in the address, so that a link or a
// copy of the page has them. `app.marks` maps rows to notes.

/** Most bookmarks: an address has a limit of its own. */
const MAX_MARKS = 200;
const MAX_NOTE = 200;

/** Bookmarks as text for the address: numbers of frames, each with its note. */
function marksText(app) {
  const texts = [...app.marks].map(([row, note]) => `${app.store.number[row]}${note ? `:${encodeURIComponent(note)}` : ""}`);
  return texts.join(",");
}

/** Bookmarks from such text; what it names and is not there is left out. */
function marksFrom(store, text) {
  const marks = new Map();
  for (const part of text.split(",").slice(0, MAX_MARKS)) {
    const [number, note = ""] = part.split(":");
    const row = store.number.indexOf(Number(number));
    if (number !== "" && Number(number) > 0 && row >= 0) marks.set(row, noteFrom(note));
  }
  return sortedMarks(marks);
}

// A note that is no percent-encoding is taken as it is.
function noteFrom(text) {
  try {
    return decodeURIComponent(text).slice(0, MAX_NOTE);
  } catch {
    return text.slice(0, MAX_NOTE);
  }
}

function sortedMarks(marks) {
  return new Map([...marks].sort(([a], [b]) => a - b));
}

/** The bookmark behind a row, or before it; by turns. -1 where there is none. */
function nextMark(app, row, step) {
  const rows = [...app.marks.keys()];
  if (rows.length === 0) return -1;
  const behind = step > 0 ? rows.find((other) => other > row) : rows.findLast((other) => other < row);
  return behind ?? (step > 0 ? rows[0] : rows[rows.length - 1]);
}

/** The list of bookmarks: each is a way to its row, a note, and a way to be rid of it. */
function showMarks(app, host, changed) {
  const items = [...app.marks].map(([row, note]) => {
    const go = make("button", "", `${app.store.number[row]} ${app.headers.typeName(row)}`);
    go.addEventListener("click", () => app.go(row));
    const field = make("input", "note");
    Object.assign(field, { value: note, placeholder: "Note", maxLength: MAX_NOTE });
    field.setAttribute("aria-label", `Note on frame ${app.store.number[row]}`);
    field.addEventListener("change", () => changed(row, field.value));
    const remove = make("button", "", "×");
    remove.title = "Remove";
    remove.addEventListener("click", () => changed(row, null));
    for (const button of [go, remove]) button.type = "button";
    return make("li", "", go, field, remove);
  });
  const none = make("li", "said", "m marks what is selected.");
  host.replaceChildren(...(items.length > 0 ? items : [none]));
}
