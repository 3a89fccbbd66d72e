"use strict";
// The page is complete without this script, except for the trials behind each cell. Text from the
// document only ever enters the page as text, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const panel = document.getElementById("trials");
  const word = (index) => data.words[index];
  let opened = null;

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function story(trial) {
    const list = element("ol", { class: "story" });
    for (let n = 0; n < trial.story.length; n += 2) {
      const kind = word(trial.story[n]);
      list.append(
        element("li", { class: `is-${kind}` }, element("b", {}, kind), element("span", {}, word(trial.story[n + 1])))
      );
    }
    return list;
  }

  function row(trial, columns) {
    const toggle = element("button", { type: "button", "aria-expanded": "false" }, trial.name);
    const cells = trial.shown.map((index) => element("td", {}, word(index)));
    cells[0].replaceChildren(element("span", { class: `chip ${word(trial.shown[0])}` }, word(trial.shown[0])));
    const line = element("tr", {}, element("td", {}, toggle), ...cells);
    const below = element("tr", { hidden: "" }, element("td", { colspan: String(columns) }));
    toggle.addEventListener("click", () => {
      const open = below.hidden;
      if (open && !below.firstChild.hasChildNodes()) below.firstChild.append(story(trial));
      below.hidden = !open;
      toggle.setAttribute("aria-expanded", String(open));
      if (open) remember(trial.name);
    });
    return { toggle, rows: [line, below] };
  }

  function close() {
    if (!opened) return;
    opened.button.setAttribute("aria-expanded", "false");
    panel.hidden = true;
    const { button } = opened;
    opened = null;
    remember("");
    button.focus();
  }

  function open(button, group) {
    if (opened) opened.button.setAttribute("aria-expanded", "false");
    opened = { button, toggles: new Map() };
    button.setAttribute("aria-expanded", "true");
    const title = element("h3", { tabindex: "-1" }, group.title);
    const closer = element("button", { type: "button", class: "close" }, "Close");
    closer.addEventListener("click", close);
    const head = element("tr", {}, ...["trial", ...data.columns].map((name) => element("th", { scope: "col" }, name)));
    const body = element("tbody");
    for (const trial of group.trials) {
      const made = row(trial, data.columns.length + 1);
      opened.toggles.set(trial.name, made.toggle);
      body.append(...made.rows);
    }
    const table = element("table", {}, element("thead", {}, head), body);
    panel.replaceChildren(
      closer,
      title,
      element("p", { class: "small faint" }, "Choose a trial to read what happened in it."),
      element("div", { class: "wide tall", role: "region", tabindex: "0", "aria-label": group.title }, table)
    );
    panel.hidden = false;
    remember(group.id);
    title.focus();
  }

  // Links to a cell or a trial: #cell or #trial, as in "#r_dup.b1" and "#r_dup.b1.0003".
  function remember(place) {
    history.replaceState(null, "", place ? `#${encodeURIComponent(place)}` : location.pathname + location.search);
  }

  function follow() {
    let place;
    try { place = decodeURIComponent(location.hash.slice(1)); } catch { return; }
    if (!place) return;
    for (const [button, group] of buttons) {
      const inside = group.trials.some((trial) => trial.name === place);
      if (group.id !== place && !inside) continue;
      open(button, group);
      if (inside) {
        opened.toggles.get(place).click();
        opened.toggles.get(place).focus();
      }
      return;
    }
  }

  const buttons = new Map();
  for (const place of document.querySelectorAll("[data-group]")) {
    const group = data.groups[Number(place.dataset.group)];
    const button = element("button", { type: "button", class: place.className, "aria-expanded": "false", "aria-controls": "trials" });
    button.setAttribute("aria-label", `${place.innerText.replace(/\s+/g, " ").trim()}: show the trials of ${group.title}`);
    button.append(...place.childNodes);
    button.addEventListener("click", () => (opened && opened.button === button ? close() : open(button, group)));
    place.replaceWith(button);
    buttons.set(button, group);
  }
  panel.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
  window.addEventListener("hashchange", follow);
  follow();
})();
