// The page: signs in, shows what is subscribed to, and keeps it moving.

import { Alert, Board, Matches, counted } from "./boards.js";
import { Editor } from "./editor.js";
import { find, toast } from "./elements.js";
import { Matcher } from "./matcher.js";
import { Space } from "./space.js";
import { Tocsin } from "./tocsin.js";

const LISTED = 200;
const AT_FIRST = 8;
const STATUS = { live: "live", connecting: "connecting", lost: "lost, coming back", refused: "signed out" };

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
    };
  }

  async start() {
    const [{ tables }, { streams }] = await Promise.all([
      this.client.request("GET", "/v1/tables"),
      this.client.request("GET", "/v1/streams"),
    ]);
    this.editor.sources([...tables, ...streams]);
    this.matcher.sources(streams);
    await this.refresh();
    if (!this.shown.size) this.client.connect();
    setInterval(() => this.refresh().catch(() => {}), 4000);
    setInterval(() => this.measure().catch(() => {}), 1000);
  }

  /** Subscriptions made and ended elsewhere come and go here too. Those that are not shown cost nothing. */
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
    const listen = (what, message, answer) => this.heard(card, what, message, answer);
    card.stop = this.client.watch(id, listen, { throttle: 0.2 });
    counted();
  }

  heard(card, what, message, answer) {
    if (what === "ended") return this.remove(card.subscription.id);
    if (card instanceof Alert) {
      if (message.progress) card.progress(message.progress);
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
    try {
      await this.client.request("DELETE", `/v1/subscriptions/${card.subscription.id}`);
    } catch (failure) {
      if (failure.status !== 404) return toast(failure.message, "error");
    }
    this.remove(card.subscription.id);
  }

  async explain(card) {
    const { text } = await this.client.request("GET", `/v1/subscriptions/${card.subscription.id}/explain`);
    card.explain(text);
  }

  /** What no change tells: how far alerts are, and the tiles of the last update. */
  async measure() {
    if (document.hidden) return;
    await this.space.look();
    for (const card of this.shown.values()) {
      if (!(card instanceof Alert) || card.isOver) continue;
      const { rows } = await this.client.request("GET", `/v1/subscriptions/${card.subscription.id}/result`);
      if (rows.length && !card.isOver) card.progress(rows[0]);
    }
  }
}

async function signIn(key) {
  const client = new Tocsin(key);
  const me = await client.request("GET", "/v1/me");
  sessionStorage.setItem("tocsin-key", key);
  find("signin").hidden = true;
  find("main").hidden = false;
  find("leave").hidden = false;
  await new Page(client, me).start();
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
const kept = sessionStorage.getItem("tocsin-key");
if (kept) signIn(kept).catch(() => sessionStorage.removeItem("tocsin-key"));
