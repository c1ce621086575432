// The time axis that all charts of a page share: the same time between the same edges, the same ticks.

/* The time that there is. Where it is known from snapshots: their times, and the edges of what logs cover. */
const axisTime = { from: 0, to: 1, snapshots: [], logged: null };

/* The time that all charts show. */
const shownTime = {
  from: axisTime.from,
  to: axisTime.to,
  listeners: [],
  set(from, to) {
    const least = 20, whole = Math.max(axisTime.to - axisTime.from, 1);
    const length = Math.min(Math.max(to - from, least), whole * 1.02 + 2 * least);
    const middle = (from + to) / 2;
    const low = axisTime.from - whole * 0.01 - least, high = axisTime.to + whole * 0.01 + least;
    this.from = Math.min(Math.max(middle - length / 2, low), Math.max(high - length, low));
    this.to = this.from + length;
    this.listeners.forEach((listener) => listener());
  },
  whole() {
    const whole = Math.max(axisTime.to - axisTime.from, 1);
    this.set(axisTime.from - whole * 0.005, axisTime.to + whole * 0.01);
  },
  zoom(factor, around = (this.from + this.to) / 2) {
    this.set(around - (around - this.from) * factor, around + (this.to - around) * factor);
  },
  move(ms) {
    this.set(this.from + ms, this.to + ms);
  },
};

/* [step of ticks, pixels that a label of it needs]. */
const STEPS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map((step) => [step, 45]),
  ...[1e3, 2e3, 3e3, 5e3, 1e4, 15e3, 3e4].map((step) => [step, 57]),
  ...[6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 108e5, 216e5, 432e5].map((step) => [step, 40]),
  ...[864e5, 1728e5, 3456e5, 6048e5, 12096e5].map((step) => [step, 40]),
  ...[2592e6, 5184e6, 15552e6, 31536e6].map((step) => [step, 72]),
];

/* The label of a tick: a day where a day begins, a minute where ticks are closer than a second. */
function tickText(ms, step) {
  const text = timeOf(ms);
  if (step >= 2592e6) return text.slice(0, 10);
  if (ms % 864e5 === 0) return text.slice(5, 10);
  if (step >= 6e4 || (step < 1000 && ms % 6e4 === 0)) return text.slice(11, 16);
  return step < 1000 ? text.slice(17) : text.slice(11, 19);
}

/* The ticks of an axis so many pixels wide, and what stands beside it: the day, the minute where ticks are closer
   than a second. */
function ticksOf(from, to, width) {
  const spacing = width < 420 ? 1 : 1.5;
  const [step] = STEPS.find(([each, label]) => (each / (to - from)) * width >= label * spacing) || STEPS[STEPS.length - 1];
  const ticks = [];
  for (let ms = Math.ceil(from / step) * step; ms <= to; ms += step) ticks.push({ ms, text: tickText(ms, step) });
  const day = timeOf(Math.max(from, axisTime.from));
  return { ticks, day: step < 1000 ? day.slice(5, 16) : day.slice(0, 10) };
}

const timeAxis = {
  /* What the right edge leaves free, for half a label; room at the left for the day; between it and the axis. */
  right: 26, least: 104, apart: 30,
  longest: new Map(),
  /* A picture tells how many letters its names have; where that moves the edge, all are drawn again. */
  needs(picture, letters) {
    if (this.longest.get(picture) === letters) return;
    this.longest.set(picture, letters);
    shownTime.listeners.forEach((listener) => listener());
  },
  /* The edges on the screen; every section is as wide as the first. */
  edges() {
    const { left, right } = document.querySelector("section > .body").getBoundingClientRect();
    const letters = Math.max(0, ...this.longest.values());
    const names = Math.max(this.least, Math.min((right - left) * 0.24, 230, 30 + letters * 6.6));
    return { left: left + 1 + names, right: right - 1 - this.right };
  },
};

/* A picture over the time axis: `left` and `right` are the axis in its own pixels. */
class Picture {
  place(node) {
    const { left, right } = timeAxis.edges(), at = node.getBoundingClientRect().left;
    Object.assign(this, { left: left - at, right: Math.max(right, left + 1) - at });
  }

  x(ms) {
    return this.left + ((ms - shownTime.from) / (shownTime.to - shownTime.from)) * (this.right - this.left);
  }

  ms(x) {
    return shownTime.from + ((x - this.left) / (this.right - this.left)) * (shownTime.to - shownTime.from);
  }

  get axis() {
    return ticksOf(shownTime.from, shownTime.to, this.right - this.left);
  }

  /* Where snapshots are: their places, once where many are close; and the edges of what logs cover, null for none. */
  get known() {
    const within = (ms) => Math.min(Math.max(this.x(ms), this.left), this.right);
    const marks = axisTime.snapshots.filter((ms) => ms >= shownTime.from && ms <= shownTime.to).map(within);
    const [from, to] = (axisTime.logged || []).map(within);
    return { marks: marks.filter((x, at) => !at || Math.round(x / 3) !== Math.round(marks[at - 1] / 3)), log: to > from ? [from, to] : null };
  }
}
