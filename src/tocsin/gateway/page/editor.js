// The SQL box: says what kind a statement is, and underlines its error.

import { find, make } from "./elements.js";

const EXAMPLES = {
  table: (name, columns) => {
    const numbers = columns.filter(([, type]) => !/string|boolean/.test(type)).map(([column]) => column);
    const [x, y] = [numbers[0] || columns[0][0], numbers[1] || numbers[0] || columns[0][0]];
    return `SELECT * FROM ${name} WHERE ${x} BETWEEN :lo AND :hi ORDER BY ${y} LIMIT 5`;
  },
  stream: (name, columns) => {
    const number = columns.find(([, type]) => /int|decimal|double|float/.test(type));
    return number
      ? `SELECT SUM(${number[0]}) FROM ${name} HAVING SUM(${number[0]}) >= :tau`
      : `SELECT * FROM ${name} WHERE age > 30 AND city = 'Oslo'`;
  },
};

export class Editor {
  constructor(client, subscribed) {
    this.client = client;
    this.subscribed = subscribed;
    this.sql = find("sql");
    this.sql.addEventListener("input", () => this.typed());
    this.sql.addEventListener("scroll", () => (find("underline").scrollTop = this.sql.scrollTop));
    this.sql.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        this.subscribe();
      }
    });
    find("subscribe").onclick = () => this.subscribe();
  }

  sources(sources) {
    this.offer(
      sources.map((source) => {
        const columns = Object.entries(source.columns || {});
        return {
          name: source.name,
          about: `${source.kind} · ${columns.map(([name]) => name).join(", ") || "any attributes"}`,
          title: columns.map(([name, type]) => `${name} ${type}`).join("\n") || "any attributes",
          sql: EXAMPLES[source.kind](source.name, columns),
        };
      }),
      "There is no table or stream yet that you may read.",
    );
  }

  /** The spaces of the job that feeds the gateway; nothing else can be queried there. */
  spaces(spaces) {
    this.offer(
      spaces.map(({ space, source, sql }) => ({ name: source, about: space.replace(/\bFROM \S+ ?/, ""), title: space, sql })),
      "The job that feeds this gateway has no space yet that you may read.",
    );
  }

  /** Buttons that each put a statement into the box. Unchanged ones stay, so that they retain the focus. */
  offer(offers, otherwise) {
    const text = JSON.stringify(offers);
    if (text === this.offered) return;
    this.offered = text;
    const button = ({ name, about, title, sql }) =>
      make(
        "button",
        { class: "source", type: "button", title, disabled: !sql, onclick: () => this.use(sql) },
        make("b", {}, name),
        make("span", {}, ` ${about}`),
      );
    find("sources").replaceChildren(...(offers.length ? offers.map(button) : [make("span", { class: "quiet" }, otherwise)]));
  }

  use(sql) {
    this.sql.value = sql;
    this.sql.focus();
    this.typed();
  }

  typed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.check(), 150);
  }

  async check() {
    const sql = this.sql.value;
    if (!sql.trim()) return this.say("Ctrl + Enter subscribes.", []);
    try {
      const { kind, parameters } = await this.client.request("POST", "/v1/check", { sql });
      parameters.sort((one, other) => sql.indexOf(`:${one}`) - sql.indexOf(`:${other}`));
      if (sql !== this.sql.value) return;
      this.underline(sql, null);
      this.say(`This is a ${kind}${parameters.length ? `, with ${parameters.length} parameters` : ""}.`, parameters, kind);
    } catch (failure) {
      if (sql === this.sql.value) this.refused(sql, failure);
    }
  }

  refused(sql, failure) {
    const error = failure.error || {};
    this.underline(sql, error);
    const says = find("sql-says");
    const parts = [make("b", {}, failure.message), error.hint ? ` ${error.hint}` : ""];
    says.replaceChildren(...parts);
    says.className = "says error";
    this.sql.setAttribute("aria-invalid", "true");
  }

  say(text, parameters, kind) {
    const says = find("sql-says");
    says.textContent = text;
    says.className = "says quiet";
    this.sql.removeAttribute("aria-invalid");
    find("repeat-label").hidden = kind !== "threshold";
    const old = this.params();
    find("params").replaceChildren(
      ...parameters.map((name) =>
        make("label", { class: "inline" }, `:${name} `, make("input", { class: "small", "data-name": name, value: old[name] ?? "" })),
      ),
    );
  }

  /** Repeat the text behind the box, with the offending piece marked. */
  underline(sql, error) {
    const marked = find("underline");
    if (!error || error.start === undefined) return marked.replaceChildren();
    // Positions count code points, not UTF-16 units.
    const letters = [...sql];
    const piece = letters.slice(error.start, error.end).join("");
    marked.replaceChildren(letters.slice(0, error.start).join(""), make("mark", {}, piece || " "), letters.slice(error.end).join(""));
  }

  params() {
    return Object.fromEntries([...find("params").querySelectorAll("input")].map((input) => [input.dataset.name, input.value]));
  }

  async subscribe() {
    const sql = this.sql.value;
    if (!sql.trim()) return this.sql.focus();
    const asked = { sql, params: {}, repeat: find("repeat").checked && !find("repeat-label").hidden };
    for (const [name, text] of Object.entries(this.params())) asked.params[name] = read(text);
    if (find("name").value) asked.id = find("name").value;
    try {
      const made = await this.client.request("POST", "/v1/subscriptions", asked);
      find("name").value = "";
      this.underline(sql, null);
      this.say(`${made.id} is registered.`, [], null);
      this.subscribed(made);
    } catch (failure) {
      this.refused(sql, failure);
    }
  }
}

/** The input, as a number if it is one. */
function read(text) {
  const number = Number(text);
  return text.trim() !== "" && Number.isFinite(number) ? number : text;
}
