// Live boards: lists whose rows move, values that change.

import { calm, find, make, shown } from "./elements.js";

const SHOWN = 12;

export class Board {
  constructor(subscription, { end, explain }) {
    this.subscription = subscription;
    this.rows = new Map();
    this.list = make("ol", { class: "list" });
    this.value = make("p", { class: "value", "aria-live": "polite" });
    this.more = make("p", { class: "quiet more" });
    this.text = make("pre", { class: "explained", hidden: true });
    const params = Object.entries(subscription.params).map(([name, value]) => `${name} = ${shown(value)}`);
    this.element = make(
      "article",
      { class: "card board", "aria-label": `Board ${subscription.id}`, "data-id": subscription.id },
      make(
        "header",
        {},
        make("h3", {}, subscription.id),
        make("span", { class: "kind" }, subscription.kind),
        make("span", { class: "space" }),
        make(
          "button",
          {
            class: "plain",
            type: "button",
            title: "How it is maintained",
            "aria-label": `Explain ${subscription.id}`,
            onclick: () => explain(this),
          },
          "?",
        ),
        make(
          "button",
          { class: "plain", type: "button", "aria-label": `End ${subscription.id}`, onclick: () => end(this) },
          "×",
        ),
      ),
      make("p", { class: "sql" }, subscription.sql),
      params.length ? make("p", { class: "quiet params" }, params.join(" · ")) : null,
      subscription.kind === "aggregate" ? this.value : this.list,
      this.more,
      this.text,
    );
  }

  explain(text) {
    this.text.hidden = !this.text.hidden;
    this.text.textContent = text;
  }

  update(kind, message, answer) {
    if (this.subscription.kind === "aggregate") this.count(answer.value);
    else this.move(kind, message, answer.entries);
  }

  count(value) {
    this.value.textContent = shown(value);
    flash(this.value, "changed");
  }

  /** Rows slide from their old place to the new one; new rows glow. */
  move(kind, message, entries) {
    const before = new Map([...this.rows].map(([key, row]) => [key, row.getBoundingClientRect().top]));
    const visible = entries.slice(0, SHOWN);
    const touched = new Set(message.changes.filter((c) => c.op !== "leave").map((c) => c.key));
    const scores = visible.map((entry) => entry.score).filter((score) => typeof score === "number");
    const most = Math.max(...scores.map(Math.abs), 0);
    const rows = new Map();
    visible.forEach((entry, place) => {
      const row = this.rows.get(entry.key) || this.row();
      this.fill(row, entry, place + 1, most);
      if (this.list.children[place] !== row) this.list.insertBefore(row, this.list.children[place] || null);
      rows.set(entry.key, row);
    });
    for (const [key, row] of this.rows) if (rows.get(key) !== row) row.remove();
    this.rows = rows;
    for (const [key, row] of rows) {
      if (kind === "changes" && touched.has(key)) flash(row, before.has(key) ? "changed" : "entered");
      if (before.has(key) && !calm()) slide(row, before.get(key) - row.getBoundingClientRect().top);
    }
    const rest = entries.length - visible.length;
    this.more.textContent = rest > 0 ? `and ${rest} more` : entries.length ? "" : "nothing yet";
  }

  row() {
    return make(
      "li",
      {},
      make("span", { class: "bar" }),
      make("span", { class: "rank" }),
      make("span", { class: "key" }),
      make("span", { class: "score" }),
    );
  }

  fill(row, entry, rank, most) {
    const [bar, place, key, score] = row.children;
    place.textContent = rank;
    key.textContent = entry.key;
    key.title = entry.row ? JSON.stringify(entry.row) : entry.key;
    score.textContent = entry.score === null || entry.score === undefined ? "" : shown(entry.score);
    const share = typeof entry.score === "number" && most ? Math.abs(entry.score) / most : 0;
    bar.style.width = `${100 * share}%`;
  }
}

/** Thresholds: their progress, and when they rang. */
export class Alert {
  constructor(subscription, { end }) {
    this.subscription = subscription;
    this.bar = make("div", { class: "fill" });
    this.meter = make("div", { class: "meter", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100 }, this.bar);
    this.says = make("p", { class: "says" });
    this.times = make("ul", { class: "times" });
    const params = Object.entries(subscription.params).map(([name, value]) => `${name} = ${shown(value)}`);
    this.element = make(
      "article",
      { class: "card alert", "aria-label": `Alert ${subscription.id}`, "data-id": subscription.id },
      make(
        "header",
        {},
        make("h3", {}, subscription.id),
        make("span", { class: "kind" }, subscription.repeat ? "repeats" : "once"),
        make("span", { class: "space" }),
        make(
          "button",
          { class: "plain", type: "button", "aria-label": `End ${subscription.id}`, onclick: () => end(this) },
          "×",
        ),
      ),
      make("p", { class: "sql" }, subscription.sql),
      params.length ? make("p", { class: "quiet params" }, params.join(" · ")) : null,
      this.meter,
      this.says,
      this.times,
    );
    if (subscription.state === "matured") this.over();
  }

  progress(row) {
    const reached = Number(Object.entries(row).find(([name]) => name !== "missing")[1]);
    const missing = Number(row.missing);
    const whole = reached + missing;
    const share = whole > 0 ? Math.min(1, reached / whole) : 0;
    this.bar.style.width = `${100 * share}%`;
    this.meter.setAttribute("aria-valuenow", Math.round(100 * share));
    this.says.textContent = `${shown(reached)} of ${shown(whole)}, ${shown(missing)} to go`;
  }

  /** Show when it rang before this watch. */
  before(changes) {
    this.times.replaceChildren();
    for (const change of changes) this.note(change, "earlier");
  }

  note(change, time) {
    this.times.prepend(make("li", {}, make("b", {}, shown(change.score)), ` at row ${change.key}, ${time}`));
    while (this.times.children.length > 4) this.times.lastChild.remove();
  }

  rang(change) {
    this.note(change, new Date().toLocaleTimeString());
    flash(this.element, "rang");
    if (!this.subscription.repeat) this.over();
  }

  over() {
    this.isOver = true;
    this.element.classList.add("over");
    this.bar.style.width = "100%";
    this.meter.setAttribute("aria-valuenow", 100);
    this.says.textContent = "reached";
  }
}

/** The last matches, and more as they happen. */
export class Matches extends Board {
  update(kind, message) {
    const isBeginning = kind === "snapshot";
    if (isBeginning) this.list.replaceChildren();
    for (const change of isBeginning ? message.recent || [] : message.changes) {
      const text = change.row ? JSON.stringify(change.row) : change.key;
      const row = make("li", {}, make("span", { class: "rank" }, "✓"), make("span", { class: "key" }, text));
      row.append(make("span", { class: "score" }, shown(change.score)));
      this.list.prepend(row);
      if (!isBeginning) flash(row, "entered");
    }
    while (this.list.children.length > 8) this.list.lastChild.remove();
    this.more.textContent = this.list.children.length ? "" : "no match yet";
  }
}

function flash(element, name) {
  element.classList.remove(name);
  void element.offsetWidth;
  element.classList.add(name);
}

function slide(row, distance) {
  if (!distance) return;
  row.animate([{ transform: `translateY(${distance}px)` }, { transform: "none" }], {
    duration: 320,
    easing: "cubic-bezier(.2,.8,.2,1)",
  });
}

export function counted() {
  for (const name of ["boards", "alerts"]) {
    const count = find(name).children.length;
    find(`${name}-count`).textContent = count || "";
    find(`${name}-empty`).hidden = count > 0;
  }
}
