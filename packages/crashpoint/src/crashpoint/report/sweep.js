"use strict";
// The page is complete without this script: it adds what a square is, and ways from a square or a
// point to the story. Text from the document only ever enters the page as text.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const rows = new Map(data.rows.map((row) => [row.n, row]));
  const panel = document.getElementById("chosen");
  const at = document.getElementById("at");
  const stories = new Map([...document.querySelectorAll("details.story")].map((s) => [s.dataset.id, s]));
  let chosen = null;

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  // What stands at a path, "6" or "6.3": its id, its letter, what it came to.
  function scenario(path) {
    const [first, second] = path.split(".").map(Number);
    const row = rows.get(first);
    const id = second ? `${row.id}.${row.ids[second - 1]}` : row.id;
    const code = second ? row.again[second - 1] : row.code;
    return { id, code, last: second ? row.ids[second - 1] : row.id, said: data.said[id] || data.names[code] };
  }

  const bare = (id) => id.replace(/^\d+-/, "");

  // A story of this scenario, or of one that failed alike: same outcome, same kind of last point.
  function storyOf(found) {
    if (stories.has(found.id)) return [stories.get(found.id), true];
    if (found.code === ".") return [null, false];
    const crashes = (id) => id.split(/\.(?=\d+-)/);
    const alike = [...stories].filter(([id, story]) =>
      story.querySelector(".chip").classList.contains(data.classes[found.code]) &&
      bare(crashes(id).pop()) === bare(found.last));
    const closest = alike.find(([id]) => crashes(id).length === crashes(found.id).length) || alike[0];
    return [closest ? closest[1] : null, false];
  }

  function quoted(text) {
    return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
  }

  function open(story) {
    story.open = true;
    story.scrollIntoView({ block: "start" });
    story.querySelector("summary").focus({ preventScroll: true });
  }

  function close() {
    panel.hidden = true;
    if (!chosen) return;
    chosen.classList.remove("chosen");
    if (chosen.tagName === "BUTTON") chosen.setAttribute("aria-expanded", "false");
    chosen.focus();
    chosen = null;
    remember("");
  }

  function choose(place) {
    const found = scenario(place.dataset.path);
    const before = chosen;
    if (before) before.classList.remove("chosen");
    if (before && before.tagName === "BUTTON") before.setAttribute("aria-expanded", "false");
    chosen = place;
    place.classList.add("chosen");
    if (place.tagName === "BUTTON") place.setAttribute("aria-expanded", "true");
    const closer = element("button", { type: "button" }, "Close");
    closer.addEventListener("click", close);
    const chip = element("span", { class: `chip ${data.classes[found.code]}` }, data.names[found.code]);
    const lines = [element("p", {}, chip, " ", element("b", { class: "mono" }, found.id)), element("p", {}, found.said)];
    const [story, own] = storyOf(found);
    if (story) {
      const link = element("a", { href: "#stories" }, own ? "Read its story" : `Read the story of one that failed alike, ${story.dataset.id}`);
      link.addEventListener("click", (event) => { event.preventDefault(); open(story); });
      lines.push(element("p", {}, link));
    }
    if (data.again) lines.push(element("p", { class: "small" }, element("code", {}, `${data.again} ${quoted(data.prefix + found.id)}`)));
    panel.replaceChildren(closer, ...lines);
    panel.hidden = false;
    remember(found.id);
  }

  function remember(id) {
    history.replaceState(null, "", id ? `#${encodeURIComponent(id)}` : location.pathname + location.search);
  }

  // Points: the chips become buttons.
  for (const chip of document.querySelectorAll(".points .chip[data-path]")) {
    const button = element("button", { type: "button", class: chip.className, "data-path": chip.dataset.path, "aria-expanded": "false", "aria-controls": "chosen" });
    const row = rows.get(Number(chip.dataset.path));
    button.setAttribute("aria-label", `${chip.textContent}: show what came of a crash at point ${row.id}`);
    button.append(...chip.childNodes);
    button.addEventListener("click", () => (chosen === button ? close() : choose(button)));
    chip.replaceWith(button);
  }

  // Squares: one of them can be reached with Tab, the others with arrow keys from there.
  const table = document.querySelector("table.grid");
  if (table) {
    const lines = [...table.rows].map((line) => [...line.querySelectorAll(".square")]);
    table.setAttribute("role", "grid");
    const tell = (square) => {
      const found = scenario(square.dataset.path);
      at.textContent = `${found.id}: ${found.said}`;
    };
    let current = lines[0][0];
    for (const line of lines) for (const square of line) {
      square.setAttribute("role", "gridcell");
      square.tabIndex = square === current ? 0 : -1;
    }
    const go = (square) => {
      current.tabIndex = -1;
      current = square;
      current.tabIndex = 0;
      current.focus();
    };
    table.addEventListener("focusin", (event) => { if (event.target.matches(".square")) tell(event.target); });
    table.addEventListener("mouseover", (event) => { if (event.target.matches(".square")) tell(event.target); });
    table.addEventListener("click", (event) => {
      if (!event.target.matches(".square")) return;
      go(event.target);
      choose(event.target);
    });
    table.addEventListener("keydown", (event) => {
      if (!event.target.matches(".square")) return;
      const y = lines.findIndex((line) => line.includes(event.target));
      const x = lines[y].indexOf(event.target);
      const right = lines[y].length - x; // rows are flush at their ends
      const above = (line) => line[Math.max(0, line.length - right)];
      const moves = {
        ArrowLeft: () => lines[y][Math.max(0, x - 1)],
        ArrowRight: () => lines[y][Math.min(lines[y].length - 1, x + 1)],
        ArrowUp: () => above(lines[Math.max(0, y - 1)]),
        ArrowDown: () => above(lines[Math.min(lines.length - 1, y + 1)]),
        Home: () => lines[y][0],
        End: () => lines[y].at(-1),
      };
      if (event.key in moves) go(moves[event.key]());
      else if (event.key === "Enter" || event.key === " ") choose(event.target);
      else return;
      event.preventDefault();
    });
  }

  // Links to a scenario: #6-accepted:file
  function follow() {
    let id;
    try { id = decodeURIComponent(location.hash.slice(1)); } catch { return; }
    if (stories.has(id)) { open(stories.get(id)); return; }
    for (const place of document.querySelectorAll("[data-path]")) {
      if (scenario(place.dataset.path).id === id) { choose(place); place.scrollIntoView({ block: "center" }); return; }
    }
  }
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && !panel.hidden) close(); });
  window.addEventListener("hashchange", follow);
  follow();
})();
