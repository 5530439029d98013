// The page: signs in, and shows the subscriptions live.

import { Alert, Board, Matches, counted } from "./boards.js";
import { Editor } from "./editor.js";
import { find, toast } from "./elements.js";
import { Matcher } from "./matcher.js";
import { Space } from "./space.js";
import { Tocsin } from "./tocsin.js";

const LISTED = 200;
const AT_FIRST = 8;
const STATUS = { live: "live", connecting: "connecting", lost: "lost, reconnecting", refused: "signed out" };

class Page {
  constructor(client, me) {
    this.client = client;
    this.shown = new Map();
    this.most = AT_FIRST;
    this.editor = new Editor(client, (made) => this.add(made, true));
    this.space = new Space(client);
    this.matcher = new Matcher(client);
    find("who").textContent = me.tenant;
    find("boards-rest").onclick = () => {
      this.most = LISTED;
      this.refresh();
    };
    client.onstatus = (status) => {
      find("status").textContent = STATUS[status];
      find("status").dataset.status = status;
      if (status === "refused") signOut("This key is no longer valid.");
    };
  }

  async start() {
    await this.sources();
    await this.refresh();
    if (!this.shown.size) this.client.connect();
    this.timers = [
      setInterval(() => this.sources().then(() => this.refresh()).catch(() => {}), 4000),
      setInterval(() => this.measure().catch(() => {}), 1000),
    ];
  }

  /** What can be queried: tables and streams, or the spaces of the job that feeds this gateway. */
  async sources() {
    const { fed, spaces } = await this.client.request("GET", "/v1/spaces");
    for (const id of ["matcher-card", "space-card", "alerts-section"]) find(id).hidden = fed;
    if (fed) return this.editor.spaces(spaces);
    const [{ tables }, { streams }] = await Promise.all([
      this.client.request("GET", "/v1/tables"),
      this.client.request("GET", "/v1/streams"),
    ]);
    this.editor.sources([...tables, ...streams]);
    this.matcher.sources(streams);
  }

  /** Show subscriptions registered elsewhere, remove those that ended. Those that are not shown cost nothing. */
  async refresh() {
    const { subscriptions } = await this.client.request("GET", `/v1/subscriptions?limit=${LISTED}`);
    const ids = new Set(subscriptions.map((each) => each.id));
    for (const [id, card] of this.shown) if (!ids.has(id) && !card.isOver && !card.isOwn) this.remove(id);
    let rest = 0;
    for (const each of subscriptions) {
      if (this.shown.has(each.id)) continue;
      if (each.kind !== "threshold" && find("boards").children.length >= this.most) rest += 1;
      else this.add(each);
    }
    find("boards-rest").hidden = !rest;
    find("boards-rest").textContent = `Show ${rest} more`;
    this.space.offer(subscriptions);
  }

  add(subscription, isOwn = false) {
    const { id, kind } = subscription;
    this.remove(id);
    const actions = { end: (card) => this.end(card), explain: (card) => this.explain(card) };
    const Card = kind === "threshold" ? Alert : kind === "match" ? Matches : Board;
    const card = new Card(subscription, actions);
    card.isOwn = isOwn;
    this.shown.set(id, card);
    const place = find(kind === "threshold" ? "alerts" : "boards");
    if (isOwn) place.prepend(card.element);
    else place.append(card.element);
    const listen = (what, message, answer) => this.receive(card, what, message, answer);
    card.stop = this.client.watch(id, listen, { throttle: 0.2 });
    counted();
  }

  receive(card, what, message, answer) {
    if (what === "ended") return this.remove(card.subscription.id);
    if (card instanceof Alert) {
      if (message.progress) card.progress(message.progress);
      if (what === "snapshot") card.before(message.recent || []);
      for (const change of message.changes) {
        if (change.op !== "mature") continue;
        card.rang(change);
        toast(`${card.subscription.id} rings: ${change.score} reached`, "rang");
      }
      return;
    }
    card.update(what, message, answer);
  }

  remove(id) {
    const card = this.shown.get(id);
    if (!card) return;
    card.stop?.();
    card.element.remove();
    this.shown.delete(id);
    counted();
  }

  async end(card) {
    // Keyboard focus continues where the card was; the server may report its end first.
    const next = card.element.nextElementSibling || card.element.previousElementSibling;
    try {
      await this.client.request("DELETE", `/v1/subscriptions/${card.subscription.id}`);
    } catch (failure) {
      if (failure.status !== 404) return toast(failure.message, "error");
    }
    this.remove(card.subscription.id);
    // A user who has gone elsewhere meanwhile stays there.
    if (document.activeElement === document.body) (next?.querySelector("header button:last-child") || find("sql")).focus();
  }

  async explain(card) {
    try {
      const { text } = await this.client.request("GET", `/v1/subscriptions/${card.subscription.id}/explain`);
      card.explain(text);
    } catch (failure) {
      toast(failure.message, "error");
    }
  }

  /** Release everything. */
  close() {
    this.timers?.forEach(clearInterval);
    for (const id of [...this.shown.keys()]) this.remove(id);
    this.client.close();
  }

  /** Say why a first answer takes longer: the server compiles. */
  async compiling() {
    const { compiling } = await this.client.request("GET", "/health");
    find("compiling").hidden = !compiling;
    if (compiling) find("compiling").textContent = `compiling: ${compiling.kernels} kernels, ${Math.round(compiling.seconds)} s`;
  }

  /** Poll what changes do not contain: the progress of alerts, and the tiles of the last update. */
  async measure() {
    if (document.hidden) return;
    await this.compiling();
    await this.space.look();
    for (const card of this.shown.values()) {
      if (!(card instanceof Alert) || card.isOver) continue;
      const { rows } = await this.client.request("GET", `/v1/subscriptions/${card.subscription.id}/result`);
      if (rows.length && !card.isOver) card.progress(rows[0]);
    }
  }
}

let page = null;

async function signIn(key) {
  const client = new Tocsin(key);
  const me = await client.request("GET", "/v1/me");
  if (!me.scopes.includes("subscribe")) throw new Error("This key lacks the scope subscribe: the page has nothing to show.");
  sessionStorage.setItem("tocsin-key", key);
  find("signin-error").hidden = true;
  find("signin").hidden = true;
  find("main").hidden = false;
  find("leave").hidden = false;
  page = new Page(client, me);
  await page.start();
}

/** Return to the form, which shows the reason. */
function signOut(reason) {
  sessionStorage.removeItem("tocsin-key");
  page?.close();
  find("main").hidden = true;
  find("leave").hidden = true;
  find("who").textContent = "";
  find("signin").hidden = false;
  find("signin-error").textContent = reason;
  find("signin-error").hidden = false;
  find("key").value = "";
  find("key").focus();
}

find("signin").addEventListener("submit", async (event) => {
  event.preventDefault();
  const says = find("signin-error");
  try {
    await signIn(find("key").value.trim());
  } catch (failure) {
    says.textContent = failure.message;
    says.hidden = false;
    find("key").select();
  }
});

find("leave").onclick = () => {
  sessionStorage.removeItem("tocsin-key");
  location.reload();
};

find("theme").onclick = () => {
  const isDark = getComputedStyle(document.documentElement).colorScheme.includes("dark");
  document.documentElement.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("tocsin-theme", document.documentElement.dataset.theme);
};

const theme = localStorage.getItem("tocsin-theme");
if (theme) document.documentElement.dataset.theme = theme;
const savedKey = sessionStorage.getItem("tocsin-key");
if (savedKey) signIn(savedKey).catch(() => sessionStorage.removeItem("tocsin-key"));
