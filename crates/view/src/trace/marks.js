// SPDX-License-Identifier: Apache-2.0 OR MIT
// Bookmarks: rows that the reader marks, each with a note. They are in the address, so a link to the page keeps them.
// `app.marks` maps rows to notes.

/** Maximum number of bookmarks, since the length of an address is limited. */
const MAX_MARKS = 200;
const MAX_NOTE = 200;

/** Returns bookmarks as text for the address: frame numbers, each with its note. */
function marksText(app) {
  const texts = [...app.marks].map(([row, note]) => `${app.store.number[row]}${note ? `:${encodeURIComponent(note)}` : ""}`);
  return texts.join(",");
}

/** Parses bookmarks from the text of `marksText`. Ignores unknown frames. */
function marksFrom(store, text) {
  const marks = new Map();
  for (const part of text.split(",").slice(0, MAX_MARKS)) {
    const [number, note = ""] = part.split(":");
    const row = store.number.indexOf(Number(number));
    if (number !== "" && Number(number) > 0 && row >= 0) marks.set(row, noteFrom(note));
  }
  return sortedMarks(marks);
}

// A note that is not percent-encoded is used as it is.
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

/** Returns the next or previous bookmark of a row. The first one follows the last. -1 without bookmarks. */
function nextMark(app, row, step) {
  const rows = [...app.marks.keys()];
  if (rows.length === 0) return -1;
  const behind = step > 0 ? rows.find((other) => other > row) : rows.findLast((other) => other < row);
  return behind ?? (step > 0 ? rows[0] : rows[rows.length - 1]);
}

/** Shows the list of bookmarks. Each has a link to its row, a note, and a button that removes it. */
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
  const none = make("li", "said", "Press m to mark the selected record.");
  host.replaceChildren(...(items.length > 0 ? items : [none]));
}
