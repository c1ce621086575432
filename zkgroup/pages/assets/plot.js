// Plots drawn as SVG, again whenever their width or the time they show changes.

/* A time and a session that all charts mark. */
const selection = {
  from: null, to: null, session: -1, incident: null, listeners: [],
  set(from, to, session, incident = null) {
    Object.assign(this, { from, to: to === null ? axisTime.to : to, session, incident });
    this.listeners.forEach((listener) => listener());
  },
  clear() {
    this.set(null, null, -1);
  },
};

class Plot extends Picture {
  constructor(holder, { height, label }) {
    super();
    this.height = height;
    this.node = svg("svg", { class: "plot", role: "img", "aria-label": label });
    holder.append(el("div", { class: "chart" }, this.node));
    shownTime.listeners.push(() => this.later());
    selection.listeners.push(() => this.later());
    new ResizeObserver(() => this.later()).observe(this.node.parentNode);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.later());
    matchMedia("print").addEventListener("change", () => this.drawAnew()); // paper waits for no frame
  }

  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.drawAnew();
    });
  }

  drawAnew() {
    this.width = this.node.parentNode.clientWidth;
    if (!this.width) return;
    this.place(this.node);
    this.node.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.node.style.height = `${this.height}px`;
    this.node.replaceChildren();
    this.mark();
    this.draw();
  }

  /* The day and the ticks, below. */
  timeLabels() {
    const { ticks, day } = this.axis, y = this.height - 9, { marks, log } = this.known, top = this.height - 27;
    if (log) this.node.append(svg("rect", { class: "log", x: log[0], y: top, width: log[1] - log[0], height: 3 }));
    this.node.append(...marks.map((x) => svg("path", { class: "snapshot", d: `M${x - 3.5},${top + 5}h7l-3.5,-6Z` })));
    this.node.append(
      svg("text", { x: this.left - timeAxis.apart, y, "text-anchor": "end" }, day),
      ...ticks.map(({ ms, text }) => svg("text", { class: "tick", x: this.x(ms), y, "text-anchor": "middle" }, text)),
    );
  }

  /* The selected time, behind everything. */
  mark() {
    if (selection.from === null) return;
    const from = Math.max(this.x(selection.from), this.left), to = Math.min(this.x(selection.to), this.right);
    if (to < this.left || from > this.right) return;
    this.node.append(svg("rect", { class: "selected", x: from, y: 0, width: Math.max(to - from, 2), height: this.height - 24 }));
  }

  y(value) {
    return this.height - 30 - ((value - this.low) / Math.max(this.high - this.low, 1)) * (this.height - 48);
  }

  /* The axes, for values from low to high. */
  axes(low, high) {
    const step = niceStep((high - low) / 4);
    this.low = Math.floor(low / step) * step;
    this.high = Math.max(Math.ceil(high / step) * step, this.low + step);
    for (let value = this.low; value <= this.high; value += step) {
      const y = Math.round(this.y(value)) + 0.5;
      this.node.append(
        svg("line", { class: "grid", x1: this.left, x2: this.right, y1: y, y2: y }),
        svg("text", { x: this.left - 8, y: y + 4, "text-anchor": "end" }, shortNumber(value)),
      );
    }
    this.timeLabels();
  }

  draw() {}
}

function niceStep(wanted) {
  let step = 1;
  while (step * 10 <= wanted) step *= 10;
  return [1, 2, 5, 10].map((each) => each * step).find((each) => each >= wanted) || step * 10;
}

function shortNumber(value) {
  if (Math.abs(value) >= 1e15) return value.toExponential(1);
  for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"]]) {
    if (Math.abs(value) >= size * 10) return `${+(value / size).toFixed(1)}${unit}`;
  }
  return value.toLocaleString("en");
}
