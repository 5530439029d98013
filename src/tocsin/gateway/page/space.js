// Subscription space: a range [lo, hi] is the point (lo, hi); a message is the tile of all points that it applies to.

import { find, make, shown } from "./elements.js";

const MARGIN = { left: 46, right: 14, top: 14, bottom: 34 };

export class Space {
  constructor(client) {
    this.client = client;
    this.canvas = find("space");
    this.choice = find("space-of");
    this.choice.onchange = () => this.look();
    this.drawn = null;
    this.age = 0;
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    this.canvas.addEventListener("mousemove", (event) => this.point(event));
    this.canvas.addEventListener("mouseleave", () => this.say());
    this.canvas.addEventListener("keydown", (event) => this.step(event));
    this.canvas.addEventListener("blur", () => {
      this.at = null;
      this.draw();
      this.say();
    });
    this.at = null;
  }

  offer(subscriptions) {
    const chosen = this.choice.value;
    const fit = subscriptions.filter((s) => s.kind === "top-k" && s.state === "live" && /between/i.test(s.sql));
    this.choice.replaceChildren(...fit.map((s) => make("option", { value: s.id }, s.id)));
    if (fit.some((s) => s.id === chosen)) this.choice.value = chosen;
    this.choice.hidden = !fit.length;
  }

  async look() {
    if (!this.choice.value) {
      this.drawn = null;
      return this.draw();
    }
    try {
      const drawn = await this.client.request("GET", `/v1/subscriptions/${this.choice.value}/space`);
      const isNew = JSON.stringify(drawn.tiles) !== JSON.stringify(this.drawn?.tiles);
      this.drawn = drawn;
      if (isNew) this.begin();
      else this.draw();
      this.say();
    } catch (failure) {
      this.drawn = null;
      this.draw();
      find("space-says").textContent = failure.message;
    }
  }

  /** New tiles glow, and fade to a quiet tone. */
  begin() {
    const start = performance.now();
    const step = (now) => {
      this.age = Math.min(1, (now - start) / 1200);
      this.draw();
      if (this.age < 1) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  extent() {
    const numbers = this.drawn.ranges.flat().filter((value) => value !== null);
    const low = Math.min(...numbers);
    const high = Math.max(...numbers);
    const gap = (high - low || 1) * 0.06;
    return [low - gap, high + gap];
  }

  draw() {
    const { canvas } = this;
    const scale = devicePixelRatio || 1;
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    pen.font = `12px ${style.getPropertyValue("--font")}`;
    if (!this.drawn || !this.drawn.ranges.length) {
      pen.fillStyle = color("--quiet");
      pen.textAlign = "center";
      pen.fillText("Subscribe to a list over a range :lo to :hi to see its space.", width / 2, height / 2);
      return;
    }
    const [low, high] = this.extent();
    const x = (value) => MARGIN.left + ((clamp(value, low, high) - low) / (high - low)) * (width - MARGIN.left - MARGIN.right);
    const y = (value) => height - MARGIN.bottom - ((clamp(value, low, high) - low) / (high - low)) * (height - MARGIN.top - MARGIN.bottom);
    this.place = { x, y };
    this.axes(pen, color, x, y, low, high, width, height);
    for (const tile of this.drawn.tiles) {
      const [left, right] = [x(tile.outer_lo ?? low), x(tile.inner_lo)];
      const [bottom, top] = [y(tile.inner_hi), y(tile.outer_hi ?? high)];
      pen.fillStyle = color(tile.gone ? "--gone" : "--bell");
      pen.globalAlpha = 0.16 + 0.34 * (1 - this.age);
      pen.fillRect(left, top, right - left, bottom - top);
      pen.globalAlpha = 0.9;
      pen.strokeStyle = pen.fillStyle;
      pen.lineWidth = 1;
      pen.strokeRect(left + 0.5, top + 0.5, right - left - 1, bottom - top - 1);
    }
    pen.globalAlpha = 1;
    for (const [lo, hi] of this.drawn.ranges) {
      const hit = this.tileOf(lo, hi);
      pen.beginPath();
      pen.arc(x(lo ?? low), y(hi ?? high), hit ? 4 : 3, 0, 7);
      pen.fillStyle = color(hit ? "--bell" : "--point");
      pen.fill();
      pen.lineWidth = 1;
      pen.strokeStyle = color("--card");
      pen.stroke();
    }
    if (this.at) {
      pen.beginPath();
      pen.arc(x(this.at[0] ?? low), y(this.at[1] ?? high), 7, 0, 7);
      pen.lineWidth = 2;
      pen.strokeStyle = color("--ink");
      pen.stroke();
    }
  }

  axes(pen, color, x, y, low, high, width, height) {
    pen.fillStyle = color("--below");
    pen.beginPath();
    pen.moveTo(x(low), y(low));
    pen.lineTo(x(high), y(high));
    pen.lineTo(x(high), y(low));
    pen.fill();
    pen.strokeStyle = color("--line");
    pen.fillStyle = color("--quiet");
    for (const tick of ticks(low, high)) {
      pen.beginPath();
      pen.moveTo(x(tick), MARGIN.top);
      pen.lineTo(x(tick), height - MARGIN.bottom);
      pen.moveTo(MARGIN.left, y(tick));
      pen.lineTo(width - MARGIN.right, y(tick));
      pen.stroke();
      pen.textAlign = "center";
      pen.fillText(shown(tick), x(tick), height - MARGIN.bottom + 15);
      pen.textAlign = "right";
      pen.fillText(shown(tick), MARGIN.left - 6, y(tick) + 4);
    }
    pen.textAlign = "right";
    pen.fillText(`${this.drawn.column} from →`, width - MARGIN.right, height - 4);
    pen.textAlign = "left";
    pen.fillText(`↑ ${this.drawn.column} to`, 4, 11);
  }

  tileOf(lo, hi) {
    return this.drawn.tiles.find(
      (tile) =>
        (tile.outer_lo === null || tile.outer_lo < lo) &&
        lo <= tile.inner_lo &&
        tile.inner_hi <= hi &&
        (tile.outer_hi === null || hi < tile.outer_hi),
    );
  }

  point(event) {
    if (!this.drawn || !this.place) return;
    const box = this.canvas.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    const near = this.drawn.ranges
      .map(([lo, hi]) => ({ lo, hi, far: Math.hypot(this.place.x(lo) - px, this.place.y(hi) - py) }))
      .sort((a, b) => a.far - b.far)[0];
    if (!near || near.far > 12) return this.say();
    this.describe(near.lo, near.hi);
  }

  /** Arrow keys move between points, in the order of their lower ends. */
  step(event) {
    const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!by || !this.drawn?.ranges.length) return;
    event.preventDefault();
    const ranges = [...this.drawn.ranges].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const now = this.at === null ? -1 : ranges.findIndex(([lo, hi]) => lo === this.at[0] && hi === this.at[1]);
    this.at = ranges[(now + by + ranges.length) % ranges.length];
    this.draw();
    this.describe(...this.at);
  }

  describe(lo, hi) {
    const tile = this.tileOf(lo, hi);
    const about = tile ? `was updated with ${tile.key}${tile.gone ? ", which left" : ""}` : "was not affected";
    find("space-says").textContent = `[${shown(lo)}, ${shown(hi)}] ${about}`;
  }

  say() {
    if (!this.drawn) return;
    if (this.at) return this.describe(...this.at);
    const { ranges, tiles } = this.drawn;
    const affected = ranges.filter(([lo, hi]) => this.tileOf(lo, hi)).length;
    const last = tiles.length ? `The last update: ${plural(tiles.length, "message")} for ${affected} of them.` : "No update yet.";
    find("space-says").textContent = `${plural(ranges.length, "subscription")}. ${last}`;
  }
}

const plural = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

function ticks(low, high) {
  const rough = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const found = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) found.push(Number(tick.toPrecision(12)));
  return found;
}
