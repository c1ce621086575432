// Rows of spans on a canvas. Only what is seen is drawn, so thousands of rows cost nothing.
// A span is [from, to, name, session, first zxid, last zxid, how it ended, how many it stands for].

const ROW = 22, AXIS = 26, PALETTE = 12;
const ENDS = {
  release: "released by its own session",
  session_end: "ended with its session",
  deleted_by_other: "deleted by another session",
  open: "lasts to the end",
  over: "over",
  seen: "no later snapshot proves it",
};

/* One colour a member, the same in all charts. From the 13th on colours repeat, with a line along the bar;
   from the 25th on with two, from the 37th on with three. */
const LINES = 3;
const memberNumbers = new Map();
function toneOfMember(member) {
  if (!memberNumbers.has(member)) memberNumbers.set(member, memberNumbers.size);
  const number = memberNumbers.get(member);
  return { colour: number % PALETTE, lines: Math.floor(number / PALETTE) % (LINES + 1) };
}

const isForeign = (ended) => ended === "deleted_by_other" || ended.startsWith("deleted by session");

class Timeline extends Picture {
  /* rows: {label, spans}; what: what a row is; toneOf: a span's {fill, hatched, lines}; isBad: gaps are good. */
  constructor(holder, { rows, what, label, toneOf = null, gaps = false, visible = 16 }) {
    super();
    Object.assign(this, { all: rows, rows, what, toneOf, gaps });
    this.row = 0;
    this.span = null;
    this.canvas = el("canvas", { "aria-hidden": "true" });
    this.spacer = el("div");
    this.view = el("div", { class: "view", tabindex: 0, role: "application", "aria-label": label, "aria-roledescription": "timeline" }, this.canvas, this.spacer);
    this.readout = el("p", { class: "readout", "aria-live": "polite" });
    this.visible = visible;
    holder.append(el("div", { class: "chart" }, this.view, this.readout));
    this.listen();
    shownTime.listeners.push(() => this.later());
    selection.listeners.push(() => this.later());
    this.filter("");
  }

  filter(text, picked = this.picked) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    Object.assign(this, { words: text, picked });
    this.rows = this.all.filter((row) => (!picked || picked(row)) && words.every((word) => row.label.toLowerCase().includes(word)));
    this.row = 0;
    this.span = null;
    const rows = Math.max(Math.min(this.rows.length, this.visible), 1);
    this.height = AXIS + rows * ROW + 8;
    this.view.style.height = `${this.height}px`;
    this.spacer.style.height = `${Math.max(this.rows.length - rows, 0) * ROW}px`;
    this.view.parentElement.dataset.paper = this.rows.length > rows ? `${counted(this.rows.length - rows, "row")} more on the screen` : "";
    this.view.scrollTop = 0;
    this.hint();
    timeAxis.needs(this, this.rows.reduce((most, row) => Math.max(most, this.nameOfRow(row).length), 0));
    this.later();
  }

  hint() {
    const of = this.rows.length === this.all.length ? "" : ` of ${this.all.length.toLocaleString("en")}`;
    this.readout.replaceChildren(
      `${this.rows.length.toLocaleString("en")}${of} ${this.rows.length === 1 && !of ? this.what : this.what + "s"}. `,
      "Point at a span, or press the arrow keys: ↑ ↓ rows, ← → spans, + − zoom, 0 the whole history.",
    );
  }

  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  nameOfRow(row) {
    return this.isOneGroup ? row.short : row.label;
  }

  tone(span) {
    if (this.toneOf) return this.toneOf(span);
    const { colour: number, lines } = toneOfMember(memberOf(nameOf(span[2])));
    return { fill: this.palette[number], hatched: false, lines };
  }

  draw() {
    this.width = this.view.clientWidth;
    if (!this.width) return;
    this.place(this.view);
    const ratio = devicePixelRatio || 1, canvas = this.canvas;
    if (canvas.width !== Math.round(this.width * ratio) || canvas.height !== Math.round(this.height * ratio)) {
      canvas.width = Math.round(this.width * ratio);
      canvas.height = Math.round(this.height * ratio);
      canvas.style.height = `${this.height}px`;
    }
    this.inks = Object.fromEntries(["ink", "soft", "line", "paper", "error", "warning", "accent", "gap", "box"].map((name) => [name, colour(name)]));
    this.palette = Array.from({ length: PALETTE }, (_, at) => colour(`c${at}`));
    const pen = this.pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    pen.font = `11.5px ${colour("sans")}`;
    pen.textBaseline = "middle";
    const top = this.view.scrollTop;
    this.first = Math.floor(top / ROW);
    this.shift = AXIS + 2 - (top % ROW);
    this.mark();
    this.grid();
    pen.save();
    pen.beginPath();
    pen.rect(0, AXIS, this.width, this.height - AXIS);
    pen.clip();
    for (let at = this.first; at < this.rows.length && this.y(at) < this.height; at += 1) this.drawRow(at);
    pen.restore();
    if (!this.rows.length) this.text("nothing matches", this.left + 8, AXIS + ROW / 2 + 2, this.inks.soft);
  }

  /* The selected time, behind the bars. */
  mark() {
    if (selection.from === null) return;
    const from = Math.max(this.x(selection.from), this.left), to = Math.min(this.x(selection.to), this.right);
    if (to < this.left || from > this.right) return;
    this.pen.fillStyle = this.inks.box;
    this.pen.fillRect(from, 0, Math.max(to - from, 2), this.height);
    this.pen.fillStyle = this.inks.accent;
    this.pen.fillRect(from, 0, Math.max(to - from, 2), 3);
  }

  y(row) {
    return this.shift + (row - this.first) * ROW;
  }

  text(text, x, y, ink, align = "left") {
    this.pen.fillStyle = ink;
    this.pen.textAlign = align;
    this.pen.fillText(text, x, y);
  }

  grid() {
    const { pen, inks } = this, { ticks, day } = this.axis;
    pen.lineWidth = 1;
    this.text(day, this.left - timeAxis.apart, AXIS / 2 - 1, inks.soft, "right");
    for (const tick of ticks) {
      const x = Math.round(this.x(tick.ms)) + 0.5;
      pen.strokeStyle = inks.line;
      pen.beginPath();
      pen.moveTo(x, AXIS - 5);
      pen.lineTo(x, this.height);
      pen.stroke();
      this.text(tick.text, x, AXIS / 2 - 1, inks.soft, "center");
    }
    const { marks, log } = this.known;
    pen.fillStyle = inks.accent;
    if (log) pen.fillRect(log[0], AXIS - 3, log[1] - log[0], 3);
    for (const x of marks) {
      pen.beginPath();
      pen.moveTo(x - 3.5, AXIS - 7);
      pen.lineTo(x + 3.5, AXIS - 7);
      pen.lineTo(x, AXIS - 1);
      pen.fill();
    }
    pen.globalAlpha = 0.35;
    for (const x of marks.length < 60 ? marks : []) pen.fillRect(x - 0.5, AXIS, 1, this.height - AXIS);
    pen.globalAlpha = 1;
  }

  drawRow(at) {
    const { pen, inks } = this, row = this.rows[at], y = this.y(at), { left, right } = this;
    if (at === this.row && document.activeElement === this.view) {
      pen.fillStyle = inks.box;
      pen.fillRect(0, y, this.width, ROW);
    }
    this.text(fitted(pen, this.nameOfRow(row), left - 18), 10, y + ROW / 2, inks.ink);
    pen.save();
    pen.beginPath();
    pen.rect(left, y, right - left, ROW);
    pen.clip();
    let before = null;
    for (const span of row.spans) {
      const end = endOf(span);
      if (this.gaps && before !== null && span[0] > before) this.gap(row, before, span[0], y);
      before = end;
      if (end < shownTime.from || span[0] > shownTime.to) continue;
      this.drawSpan(span, end, y);
    }
    if (this.gaps && before !== null) this.gap(row, before, report.logged[1], y);
    this.crosses(row, y);
    pen.restore();
  }

  /* Dotted where somebody could be there, and a log would tell: of a group only while it has a member. */
  gap(row, since, until, y) {
    const from = Math.max(since, report.logged[0]), to = Math.min(until, report.logged[1]);
    if (to <= from) return undefined;
    if (!row.present) return this.dots(from, to, y);
    for (const [start, end] of row.present) {
      const low = Math.max(from, start), high = Math.min(to, end === null ? to : end);
      if (high > low) this.dots(low, high, y);
    }
    return undefined;
  }

  dots(from, to, y) {
    const x = this.x(from), end = this.x(to);
    if (end < this.left || x > this.right || end - x < 1) return;
    this.pen.strokeStyle = this.inks.soft;
    this.pen.setLineDash([2, 4]);
    this.pen.beginPath();
    this.pen.moveTo(Math.max(x, this.left) + 1, Math.round(y + ROW / 2) + 0.5);
    this.pen.lineTo(Math.min(end, this.right), Math.round(y + ROW / 2) + 0.5);
    this.pen.stroke();
    this.pen.setLineDash([]);
  }

  drawSpan(span, end, y) {
    const { pen, inks } = this;
    const x = Math.max(this.x(span[0]), this.left - 2), till = Math.min(this.x(end), this.right + 2);
    const width = Math.max(till - x - (till - x > 4 ? 1 : 0), 1.5), tone = this.tone(span);
    pen.fillStyle = tone.fill;
    pen.fillRect(x, y + 3, width, ROW - 6);
    if (tone.hatched || span[7] > 1) this.hatch(x, y + 3, width, ROW - 6);
    for (let line = 0; line < (tone.lines || 0); line += 1) {
      pen.fillStyle = inks.paper;
      pen.fillRect(x, y + [ROW - 6, 4.5, ROW - 8.5][line], width, 1.5); // not through the name
    }
    if (width > 44) {
      const text = span[7] > 1 ? `${span[7]} spans` : nameOf(span[2]);
      this.text(fitted(pen, text, width - 14), x + 5, y + ROW / 2 + 0.5, inks.paper);
    }
    const ended = nameOf(span[6]);
    if (width > 4 && !isForeign(ended) && ended !== "open" && ended !== "release" && ended !== "over" && ended !== "seen") {
      pen.fillStyle = inks.ink;
      pen.fillRect(x + width - 2, y + 1, 2, ROW - 2);
    }
    if (selection.session >= 0 && span[3] === selection.session) {
      pen.fillStyle = inks.accent;
      pen.fillRect(x, y + ROW - 4, width, 3);
    }
    if (span === this.span) {
      pen.strokeStyle = inks.ink;
      pen.lineWidth = 2;
      pen.strokeRect(x + 1, y + 2, Math.max(width - 2, 2), ROW - 4);
      pen.lineWidth = 1;
    }
  }

  hatch(x, y, width, height) {
    const { pen } = this;
    pen.save();
    pen.beginPath();
    pen.rect(x, y, width, height);
    pen.clip();
    pen.strokeStyle = this.inks.paper;
    pen.globalAlpha = 0.55;
    pen.beginPath();
    for (let at = x - height - (x % 6); at < x + width; at += 6) {
      pen.moveTo(at, y + height);
      pen.lineTo(at + height, y);
    }
    pen.stroke();
    pen.restore();
  }

  /* Where another session ended a span, however short it was: over all bars, and once where many are close. */
  crosses(row, y) {
    const { pen, inks } = this;
    let last = -Infinity;
    for (const span of row.spans) {
      if (span[1] === null || span[1] < shownTime.from || span[1] > shownTime.to || !isForeign(nameOf(span[6]))) continue;
      const x = Math.max(this.x(span[1]) - 5, this.left + 5);
      if (x - last < 4) continue;
      last = x;
      pen.beginPath();
      for (const side of [-4, 4]) {
        pen.moveTo(x - side, y + 7);
        pen.lineTo(x + side, y + ROW - 7);
      }
      for (const [ink, width] of [[inks.paper, 5.5], [inks.error, 2.5]]) {
        pen.strokeStyle = ink;
        pen.lineWidth = width;
        pen.stroke();
      }
    }
    pen.lineWidth = 1;
  }

  // --- what a person does ---------------------------------------------------------------------

  listen() {
    const view = this.view;
    view.addEventListener("scroll", () => this.later());
    view.addEventListener("focus", () => this.later());
    view.addEventListener("blur", () => this.later());
    view.addEventListener("keydown", (event) => this.key(event));
    view.addEventListener("pointerdown", (event) => this.grab(event));
    view.addEventListener("pointermove", (event) => this.over(event));
    view.addEventListener("pointerup", () => (this.grabbed = null));
    view.addEventListener("pointercancel", () => (this.grabbed = null));
    view.addEventListener("pointerleave", hideTip);
    view.addEventListener("dblclick", (event) => shownTime.zoom(0.4, this.ms(this.at(event).x)));
    view.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    new ResizeObserver(() => this.later()).observe(view);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.later());
    matchMedia("print").addEventListener("change", () => this.draw()); // paper waits for no frame
  }

  at(event) {
    const box = this.view.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  wheel(event) {
    if (event.ctrlKey || event.metaKey) shownTime.zoom(Math.exp(event.deltaY * 0.003), this.ms(this.at(event).x));
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) shownTime.move((event.deltaX / this.width) * (shownTime.to - shownTime.from));
    else return;
    event.preventDefault();
  }

  grab(event) {
    this.grabbed = { x: event.clientX, from: shownTime.from, to: shownTime.to };
    const hit = this.hit(event);
    if (hit) this.choose(hit.row, hit.span);
  }

  over(event) {
    if (this.grabbed && event.buttons) {
      const ms = ((this.grabbed.x - event.clientX) / (this.right - this.left)) * (this.grabbed.to - this.grabbed.from);
      if (Math.abs(this.grabbed.x - event.clientX) > 3) shownTime.set(this.grabbed.from + ms, this.grabbed.to + ms);
      hideTip();
      return;
    }
    const hit = this.hit(event);
    if (hit) showTip(event.clientX, event.clientY, tellSpan(this.rows[hit.row].label, hit.span));
    else hideTip();
  }

  hit(event) {
    const { x, y } = this.at(event);
    if (y < AXIS || x < this.left) return null;
    const row = this.first + Math.floor((y - this.shift) / ROW);
    if (!this.rows[row]) return null;
    const slack = (3 * (shownTime.to - shownTime.from)) / this.width, ms = this.ms(x);
    const within = (span, more) => span[0] - more <= ms && endOf(span) + more >= ms;
    const spans = this.rows[row].spans;
    const span = spans.find((each) => within(each, 0)) || spans.find((each) => within(each, slack));
    return span ? { row, span } : null;
  }

  key(event) {
    const acts = {
      ArrowUp: () => this.step(-1),
      ArrowDown: () => this.step(1),
      PageUp: () => this.step(-10),
      PageDown: () => this.step(10),
      ArrowLeft: () => (event.shiftKey ? shownTime.move(-0.2 * (shownTime.to - shownTime.from)) : this.walk(-1)),
      ArrowRight: () => (event.shiftKey ? shownTime.move(0.2 * (shownTime.to - shownTime.from)) : this.walk(1)),
      "+": () => shownTime.zoom(0.5, this.middle()),
      "=": () => shownTime.zoom(0.5, this.middle()),
      "-": () => shownTime.zoom(2, this.middle()),
      0: () => shownTime.whole(),
      Escape: hideTip,
    };
    if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    acts[event.key]();
  }

  middle() {
    if (!this.span) return undefined;
    return (this.span[0] + endOf(this.span)) / 2;
  }

  step(count) {
    if (!this.rows.length) return;
    const row = Math.min(Math.max(this.row + count, 0), this.rows.length - 1);
    const top = row * ROW, room = this.height - AXIS - ROW - 8;
    if (top < this.view.scrollTop) this.view.scrollTop = top;
    if (top > this.view.scrollTop + room) this.view.scrollTop = top - room;
    this.choose(row, this.rows[row].spans.find((span) => span[1] === null || span[1] >= shownTime.from) || this.rows[row].spans[0]);
  }

  walk(count) {
    const spans = this.rows[this.row] ? this.rows[this.row].spans : [];
    if (!spans.length) return;
    const at = spans.indexOf(this.span);
    const span = spans[at < 0 ? 0 : Math.min(Math.max(at + count, 0), spans.length - 1)];
    const length = shownTime.to - shownTime.from;
    if (span[0] > shownTime.to || span[0] < shownTime.from) shownTime.set(span[0] - length * 0.2, span[0] + length * 0.8);
    this.choose(this.row, span);
  }

  choose(row, span) {
    this.row = row;
    this.span = span;
    if (span) {
      this.readout.replaceChildren(...tellSpan(this.rows[row].label, span));
      selection.set(span[0], span[1], span[3]);
    }
    this.later();
  }
}
