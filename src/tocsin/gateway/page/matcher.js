// The matcher: an event tried against the subscriptions of a stream, without publishing it.

import { find, make } from "./elements.js";

export class Matcher {
  constructor(client) {
    this.client = client;
    this.streams = [];
    this.example = find("event").value;
    find("stream").onchange = () => this.suggest();
    find("try").onclick = () => this.attempt();
    find("event").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        this.attempt();
      }
    });
  }

  sources(sources) {
    const streams = sources.filter((source) => source.kind === "stream" && !source.window);
    const chosen = find("stream").value;
    find("stream").replaceChildren(...streams.map((source) => make("option", {}, source.name)));
    const sparse = streams.find((source) => !source.columns);
    find("stream").value = streams.some((source) => source.name === chosen) ? chosen : (sparse || streams[0])?.name;
    this.streams = streams;
    this.suggest();
  }

  /** An event of the chosen stream to start from, unless the user has typed another. */
  suggest() {
    const columns = this.streams.find((source) => source.name === find("stream").value)?.columns;
    if (!columns || find("event").value !== this.example) return;
    const value = (type) => (/string/.test(type) ? "text" : /boolean/.test(type) ? true : 1);
    const event = Object.fromEntries(Object.entries(columns).map(([name, type]) => [name, value(type)]));
    this.example = find("event").value = JSON.stringify(event, null, 1).replace(/\n\s*/g, " ").replace(/^{ | }$/g, (end) => end.trim());
  }

  async attempt() {
    const says = find("matcher-says");
    says.className = "quiet";
    let event;
    try {
      event = JSON.parse(find("event").value);
    } catch (failure) {
      says.className = "error";
      says.textContent = `This is not JSON: ${failure.message}`;
      return;
    }
    try {
      const { tried } = await this.client.request("POST", `/v1/streams/${find("stream").value}/try`, { event });
      const count = tried.filter((each) => each.matches).length;
      says.textContent = tried.length ? `${count} of ${tried.length} match` : "no subscription matches events of this stream yet";
      tried.sort((a, b) => b.matches - a.matches);
      find("verdicts").replaceChildren(...tried.map(verdict));
    } catch (failure) {
      says.className = "error";
      says.textContent = failure.message;
    }
  }
}

function verdict({ id, matches, said, predicates }) {
  return make(
    "li",
    { class: matches ? "yes" : "no" },
    make("b", {}, matches ? "✓ " : "✗ ", id),
    make("span", { class: "quiet" }, ` ${said}`),
    make("ul", {}, ...predicates.map((line) => make("li", { class: / fails/.test(line) ? "fails" : "holds" }, tidy(line)))),
  );
}

/** Ranges as people write them: an open bound is stored as the closed one at the next double. */
function tidy(line) {
  return line.replace(/ from (\S+) to (\S+): /, (whole, low, high) => {
    const parts = [];
    if (low !== "-inf") parts.push(shorter(low, -1, ">", "≥"));
    if (high !== "inf") parts.push(shorter(high, 1, "<", "≤"));
    return low === high ? ` = ${Number(low)}: ` : ` ${parts.join(" and ") || "is any number"}: `;
  });
}

function shorter(text, direction, open, closed) {
  const value = Number(text);
  const next = neighbour(value, direction);
  return String(next).length + 4 < String(value).length ? `${open} ${next}` : `${closed} ${value}`;
}

/** The next double below or above one. */
function neighbour(value, direction) {
  if (!Number.isFinite(value) || value === 0) return value;
  const bits = new BigInt64Array(new Float64Array([value]).buffer);
  bits[0] += BigInt(value > 0 ? direction : -direction);
  return new Float64Array(bits.buffer)[0];
}
