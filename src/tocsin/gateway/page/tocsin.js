// The browser client of the gateway: requests, and watches that reconnect by themselves.

export class GatewayError extends Error {
  constructor(status, error) {
    super(error.message || `status ${status}`);
    this.status = status;
    this.code = error.code;
    this.error = error;
  }
}

/** What a subscriber holds: rows in order, or a value. */
export class Answer {
  constructor() {
    this.entries = [];
    this.value = null;
  }

  begin(changes) {
    this.entries = [];
    this.value = null;
    this.apply(changes);
  }

  /** Remove what left or was updated, then insert updates and enters by rank. */
  apply(changes) {
    const gone = new Set(changes.filter((c) => c.op === "leave" || c.op === "update").map((c) => c.key));
    this.entries = this.entries.filter((entry) => !gone.has(entry.key));
    const arriving = changes.filter((c) => c.op === "update" || c.op === "enter");
    arriving.sort((a, b) => (a.rank || 0) - (b.rank || 0));
    for (const { key, score, row, rank } of arriving) {
      this.entries.splice(rank ? rank - 1 : this.entries.length, 0, { key, score, row });
    }
    for (const change of changes) if (change.op === "value") this.value = change.score;
  }
}

/** One gateway, with one key. All watches share one WebSocket. */
export class Tocsin {
  constructor(key, url = location.origin) {
    this.key = key;
    this.url = url.replace(/\/$/, "");
    this.watches = new Map();
    this.onstatus = () => {};
    this.pause = 250;
    this.socket = null;
    this.closed = false;
  }

  async request(method, path, body) {
    const headers = { Authorization: `Bearer ${this.key}` };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const text = body === undefined ? undefined : JSON.stringify(body);
    const response = await fetch(this.url + path, { method, headers, body: text });
    const answer = response.status === 204 ? null : await response.json();
    if (!response.ok) throw new GatewayError(response.status, answer.error || {});
    return answer;
  }

  /**
   * Watch a subscription. `listen(kind, message, answer)` is called with `snapshot`, `changes` and `ended`.
   * Returns a function that ends the watch.
   */
  watch(id, listen, options = {}) {
    const watch = { listen, options, cursor: null, answer: new Answer() };
    this.watches.set(id, watch);
    if (this.socket === null) this.connect();
    else if (this.ready) this.ask(id, watch);
    return () => {
      if (this.watches.get(id) !== watch) return;
      this.watches.delete(id);
      if (this.ready) this.send({ type: "unwatch", subscription: id });
    };
  }

  close() {
    this.closed = true;
    this.watches.clear();
    if (this.socket) this.socket.close();
  }

  connect() {
    if (this.closed) return;
    this.onstatus("connecting");
    const socket = (this.socket = new WebSocket(`${this.url.replace(/^http/, "ws")}/v1/live`));
    this.ready = false;
    socket.onopen = () => this.send({ type: "hello", key: this.key });
    socket.onmessage = (event) => this.receive(JSON.parse(event.data));
    socket.onclose = (event) => {
      this.ready = false;
      if (this.closed) return;
      if (event.code === 4001) {
        this.onstatus("refused");
        return;
      }
      this.onstatus("lost");
      setTimeout(() => this.connect(), this.pause);
      this.pause = Math.min(2 * this.pause, 5000);
    };
  }

  send(message) {
    this.socket.send(JSON.stringify(message));
  }

  ask(id, watch) {
    const at = watch.cursor === null ? {} : { cursor: watch.cursor };
    // An error refers to the request that caused it.
    this.send({ type: "watch", subscription: id, request: { watch: id }, ...at, ...watch.options });
  }

  /** End the watch of a subscription that has ended; retry one that cannot start yet. */
  refused(message) {
    const id = message.request?.watch;
    const watch = this.watches.get(id);
    if (!watch) return;
    if (message.code === "unavailable") {
      setTimeout(() => this.ready && this.watches.get(id) === watch && this.ask(id, watch), 1000);
      return;
    }
    this.watches.delete(id);
    watch.listen("ended", message, watch.answer);
  }

  receive(message) {
    if (message.type === "welcome") {
      this.ready = true;
      this.pause = 250;
      this.onstatus("live");
      for (const [id, watch] of this.watches) this.ask(id, watch);
      return;
    }
    if (message.type === "error") return this.refused(message);
    const watch = this.watches.get(message.subscription);
    if (!watch) return;
    if (message.cursor) watch.cursor = message.cursor;
    if (message.type === "too-old") {
      watch.cursor = null;
      this.ask(message.subscription, watch);
    } else if (message.type === "snapshot") {
      watch.answer.begin(message.changes);
      watch.listen("snapshot", message, watch.answer);
    } else if (message.type === "changes") {
      watch.answer.apply(message.changes);
      watch.listen("changes", message, watch.answer);
    } else if (message.type === "ended") {
      this.watches.delete(message.subscription);
      watch.listen("ended", message, watch.answer);
    }
  }
}
