// The plots of a report: offsets of a partition, and the load by subtree.

const MARKS = {
  rewind: { text: "rewind", tone: "error", path: "M0,5 L-6,-5 L6,-5 Z" },
  foreign: { text: "foreign commit", tone: "error", path: "M-5,-5 L5,5 M5,-5 L-5,5", line: true },
  unowned: { text: "commit without an owner", tone: "warning", path: "M-5,0 H5 M0,-5 V5", line: true },
  reset: { text: "reset by an operator", tone: "info", path: "M0,-6 L6,0 L0,6 L-6,0 Z" },
  deletion: { text: "deletion", tone: "soft", path: "M-5,-4 H5 V4 H-5 Z" },
};

function markShape(kind, x, y) {
  const mark = MARKS[kind], ink = `var(--${mark.tone})`;
  return svg("path", {
    d: mark.path, transform: `translate(${x} ${y})`, fill: mark.line ? "none" : ink,
    stroke: mark.line ? ink : "var(--paper)", "stroke-width": mark.line ? 2.5 : 1,
  });
}

/* The curve of one partition: steps, as an offset stands until the next commit. */
class OffsetPlot extends Plot {
  show(row, marks) {
    let ms = report.from, offset = 0;
    this.points = row[4].map((since, at) => {
      ms += since;
      offset = typeof row[5][at] === "string" ? Number(row[5][at]) : offset + row[5][at];
      return [ms, offset];
    });
    /* Up to when each stands: to the next, in a log; else to the last snapshot with it. */
    this.points.forEach((point, at) => {
      const stood = row[6] ? row[6][at] : null, next = this.points[at + 1];
      const log = Math.max(report.logged[1], point[0]);
      point.push(stood !== null ? point[0] + stood : next ? Math.min(next[0], log) : log);
    });
    this.marks = marks;
    this.node.setAttribute("aria-label", `Offsets of ${nameOf(row[0])}, ${partitionOf(row[1], row[2])}: ${counted(row[3], "write")}, ${counted(marks.length, "mark")}`);
    this.later();
  }

  draw() {
    const inside = this.points.filter(([ms, , until]) => ms <= shownTime.to && until >= shownTime.from);
    const marks = this.marks.filter((mark) => mark[4] >= shownTime.from && mark[4] <= shownTime.to);
    const values = [...inside.map(([, offset]) => offset), ...marks.map((mark) => Number(mark[7] === null ? mark[6] || 0 : mark[7]))];
    if (!values.length) {
      this.node.append(svg("text", { x: this.width / 2, y: this.height / 2, "text-anchor": "middle" }, "no commits in this time"));
      return;
    }
    this.axes(values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b)));
    const clamped = (ms) => Math.min(Math.max(this.x(ms), this.left), this.right).toFixed(1);
    let path = "";
    inside.forEach(([ms, offset, until], at) => {
      const isNext = at > 0 && inside[at - 1][2] >= ms;
      path += `${isNext ? "V" : `M${clamped(ms)},`}${this.y(offset).toFixed(1)}H${clamped(until)}`;
    });
    if (path) this.node.append(svg("path", { class: "curve", d: path }));
    if (inside.length < 150) {
      for (const [ms, offset] of inside) {
        if (ms >= shownTime.from) this.node.append(svg("circle", { cx: this.x(ms), cy: this.y(offset), r: 2.2, fill: "var(--c0)" }));
      }
    }
    for (const mark of marks) {
      const x = this.x(mark[4]), y = this.y(Number(mark[7] === null ? mark[6] || 0 : mark[7]));
      const shape = markShape(mark[3], x, mark[3] === "rewind" ? y - 10 : y);
      shape.addEventListener("pointermove", (event) => showTip(event.clientX, event.clientY, tellMark(mark)));
      shape.addEventListener("pointerleave", hideTip);
      this.node.append(shape);
    }
  }
}

function tellMark(mark) {
  const who = nameOf(mark[9]) || (isSeen && mark[8] < 0 ? "somebody, which snapshots do not tell" : "no member");
  return [
    el("b", {}, MARKS[mark[3]].text), ` at ${moment(mark[4])}, zxid ${mark[5]}`, el("br"),
    `${mark[6] === null ? "nothing" : mark[6]} → ${mark[7] === null ? "nothing" : mark[7]}`, el("br"),
    `by ${who}${mark[8] >= 0 ? ` (session ${nameOf(mark[8])})` : ""}; owner: ${nameOf(mark[10]) || "none"}`,
  ];
}

/* A colour for each subtree, and grey for the rest of them together. */
const areaInk = (load, at) => (nameOf(load.series[at][0]) === "everything else" ? "var(--hatch)" : `var(--c${at % PALETTE})`);

/* Bars on top of each other, a step of time each. */
class LoadPlot extends Plot {
  constructor(holder, load) {
    super(holder, { height: 250, label: "Operations over time, by subtree" });
    this.load = load;
    this.node.addEventListener("pointermove", (event) => this.over(event));
    this.node.addEventListener("pointerleave", hideTip);
    this.later();
  }

  draw() {
    const { series, step_ms: step } = this.load, steps = series.length ? series[0][1].length : 0;
    const [begin] = report.logged;
    const low = Math.max(Math.floor((shownTime.from - begin) / step), 0);
    const high = Math.min(Math.ceil((shownTime.to - begin) / step), steps);
    let most = 1;
    for (let at = low; at < high; at += 1) most = Math.max(most, series.reduce((sum, [, counts]) => sum + counts[at], 0));
    this.axes(0, most);
    const base = new Float64Array(steps);
    series.forEach(([, counts], number) => {
      let path = "";
      for (let at = low; at < high; at += 1) {
        if (!counts[at]) continue;
        const x = Math.max(this.x(begin + at * step), this.left);
        const end = Math.min(this.x(begin + (at + 1) * step), this.right);
        const y = this.y(base[at] + counts[at]), bottom = this.y(base[at]);
        base[at] += counts[at];
        if (end > x) path += `M${x.toFixed(1)},${bottom.toFixed(1)}V${y.toFixed(1)}H${Math.max(end - (end - x > 3 ? 1 : 0), x + 0.5).toFixed(1)}V${bottom.toFixed(1)}Z`;
      }
      if (path) this.node.append(svg("path", { d: path, fill: areaInk(this.load, number) }));
    });
  }

  over(event) {
    const box = this.node.getBoundingClientRect(), { series, step_ms: step } = this.load;
    const at = Math.floor((this.ms(event.clientX - box.left) - report.logged[0]) / step);
    if (!series.length || at < 0 || at >= series[0][1].length) return hideTip();
    const counts = series.map(([name, each]) => [nameOf(name), each[at]]).filter(([, count]) => count).sort((a, b) => b[1] - a[1]);
    if (!counts.length) return hideTip();
    const lines = counts.slice(0, 6).flatMap(([name, count]) => [el("br"), `${count.toLocaleString("en")} ${name}`]);
    return showTip(event.clientX, event.clientY, [el("b", {}, moment(report.logged[0] + at * step)), ` and ${durationOf(step)} on`, ...lines]);
  }
}
