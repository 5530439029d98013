// The matcher: an event tried against the subscriptions of a stream, without publishing it.

import { find, make } from "./elements.js";

export class Matcher {
  constructor(client) {
    this.client = client;
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
  }

  async attempt() {
    const says = find("matcher-says");
    says.className = "quiet";
    let event;
    try {
      event = JSON.parse(find("event").value);
    } catch (failure) {
      says.className = "error";
      says.textContent = `This is no JSON: ${failure.message}`;
      return;
    }
    try {
      const { tried } = await this.client.request("POST", `/v1/streams/${find("stream").value}/try`, { event });
      const count = tried.filter((each) => each.matches).length;
      says.textContent = tried.length ? `${count} of ${tried.length} match` : "nobody matches events of this stream yet";
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
    make("ul", {}, ...predicates.map((line) => make("li", { class: / fails/.test(line) ? "fails" : "holds" }, line))),
  );
}
