// Charts over time, all with one time axis: drag to zoom, double-click for all of it, click to go there.
const AXIS_PX = 84, PAD_PX = 14, DRAG_PX = 5, USUAL_HEIGHT_PX = 900, MOST_TALL = 1.6;
const LOOK_S = 30, LOOK_BEFORE = 0.7, TOO_WIDE = 4;

class Charts {
  constructor(run, place) {
    this.run = run;
    this.place = place;
    this.all = [];
    this.legends = [];
    this.zooming = false;
    this.tall = Math.min(MOST_TALL, Math.max(1, window.innerHeight / USUAL_HEIGHT_PX));
    this.gaps = (chart, series, first, last, gaps) => [...gaps, ...run.gaps.map((ends) => ends.map((t) => Math.round(chart.valToPos(t, "x", true))))];
    this.addLanes();
    this.addLines("v", "forward speed", "m/s", this.commands("v"), 96);
    this.addLines("w", "turning speed, + is left", "rad/s", this.commands("w"), 96);
    this.addLines("distance", "distances", "m", [
      { name: "to the goal", values: run.series.goal_m, colour: "goal" },
      { name: "to the nearest thing seen", values: run.series.nearest_m, colour: "nearest", width: 1.4 },
    ], run.timed.decisions ? 88 : 108, { last: !run.timed.decisions });
    if (run.timed.stages) this.addStages();
    if (run.timed.decisions) this.addDecisions();
    for (const chart of this.all) this.listen(chart);
    new ResizeObserver(() => this.resize()).observe(place);
    focus.onChange(() => this.step());
    this.step();
  }

  commands(axis) {
    const { series } = this.run, stepped = uPlot.paths.stepped({ align: 1 });
    return [
      { name: "measured", values: series[`${axis}_measured`], colour: "measured", width: 1.2 },
      { name: "wanted", values: series[`${axis}_wanted`], colour: "wanted", dash: [5, 4], width: 1.6, paths: stepped },
      { name: "sent", values: series[`${axis}_sent`], colour: "sent", width: 1.8, paths: stepped },
    ];
  }

  axis(extra = {}) {
    return {
      stroke: () => palette.get("soft"), font: "11px system-ui, sans-serif",
      grid: { stroke: () => palette.get("grid"), width: 1 }, ticks: { show: false }, ...extra,
    };
  }

  /** Only the first and the last chart name the seconds; the lines of the others stand below theirs. */
  timeAxis(named) {
    const said = (value) => `${Number(value.toFixed(3))} s`;
    return this.axis({ size: named ? 20 : 4, values: (one, splits) => splits.map((value) => (named ? said(value) : "")) });
  }

  make(id, title, legend, options, data) {
    const box = element("div", { class: "chart", id: `chart-${id}` }), head = element("div", { class: "legend" });
    head.append(element("b", {}, title), ...legend);
    box.append(head);
    this.place.append(box);
    const chart = new uPlot({
      width: this.place.clientWidth, padding: [6, PAD_PX, 0, 0], legend: { show: false },
      cursor: { sync: { key: "time", setSeries: false }, y: false, points: { show: false }, drag: { x: true, y: false, dist: DRAG_PX } },
      ...options, height: Math.round(options.height * (id === "lanes" ? 1 : this.tall)),
      hooks: { ...options.hooks, setScale: [(one, key) => key === "x" && this.zoomAll(one)], setCursor: [(one) => this.hover(one)] },
    }, data, box);
    chart.scrub = element("div", { class: "scrub" });
    chart.over.append(chart.scrub);
    this.all.push(chart);
    return chart;
  }

  scales(extra = {}) {
    return { x: { time: false, min: 0, max: Math.max(this.run.end_s, this.run.period_s) }, ...extra };
  }

  addLines(id, title, unit, lines, height, extra = {}) {
    const legend = lines.map((line) => {
      const shown = element("span", { class: `key ${line.dash ? "dashed" : line.points ? "dotted" : ""}`, "data-colour": line.colour }, `${line.name} `);
      shown.append(element("i"));
      return shown;
    });
    const listed = lines.map((line) => Array.from(line.values, (value) => (Number.isFinite(value) ? value : null)));
    const chart = this.make(id, `${title} [${unit}]`, legend, {
      height, scales: this.scales({ y: { range: extra.range || ((one, low, high) => this.range(low, high)) } }),
      series: [{}, ...lines.map((line) => ({
        stroke: () => palette.get(line.colour), width: line.width || 1.6, dash: line.dash, paths: line.paths, gaps: this.gaps,
        points: { show: false }, spanGaps: true, ...line.options,
      }))],
      axes: [this.timeAxis(extra.last), this.axis({ size: AXIS_PX, space: 26 })],
      hooks: extra.hooks,
    }, [this.run.series.t, ...listed]);
    this.legends.push({ chart, lines, keys: legend, unit });
    return chart;
  }

  range(low, high) {
    if (low === null || high === null || !Number.isFinite(low) || !Number.isFinite(high)) return [0, 1];
    const room = Math.max(0.06 * (high - low), 0.05);
    return [low >= 0 && low < 0.5 * (high - low) + 1e-9 ? -room / 3 : low - room, high + room];
  }

  addStages() {
    const { stages, robot } = this.run, rows = this.run.ticks, lines = [];
    let sum = new Float32Array(rows);
    stages.names.forEach((name, stage) => {
      sum = sum.map((value, row) => value + stages.ms[stage * rows + row]);
      lines.push({ name, values: sum, own: stages.ms.subarray(stage * rows, (stage + 1) * rows), colour: `stage-${stage % 7}`, width: 0.6, options: {} });
    });
    lines.reverse();
    for (const line of lines) line.options.fill = () => palette.get(line.colour);
    this.addLines("stages", "a tick's stages, one on the other; dashed is the period", "ms", lines, 96, {
      range: (one, low, high) => [0, Math.max(1.08 * (high || 0), 1.15 * robot.period_ms)],
      hooks: { draw: [(chart) => this.level(chart, robot.period_ms)] },
    });
  }

  addDecisions() {
    const { series, robot } = this.run;
    const point = { paths: () => null, points: { show: true, size: 5, width: 1.5 } };
    const dots = (name, values, colour, hollow) => ({
      name, values, colour, points: true,
      options: { ...point, points: { ...point.points, stroke: () => palette.get(colour), fill: () => palette.get(hollow ? "card" : colour) } },
    });
    this.addLines("decisions", "decisions; dashed is the policy's budget, a cross a missed one", "ms", [
      dots("from sensing to acting", series.delay_ms, "stage-4", true), dots("policy took", series.decision_ms, "stage-3", false),
    ], 116, {
      last: true,
      range: (one, low, high) => [0, Math.max(1.1 * (high || 0), 1.2 * robot.budget_ms)],
      hooks: { draw: [(chart) => this.level(chart, robot.budget_ms), (chart) => this.misses(chart)] },
    });
  }

  level(chart, value) {
    const y = chart.valToPos(value, "y", true), { left, width } = chart.bbox, { ctx } = chart;
    ctx.save();
    ctx.strokeStyle = palette.get("ink"); ctx.lineWidth = devicePixelRatio; ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.beginPath(); ctx.moveTo(left, y); ctx.lineTo(left + width, y); ctx.stroke();
    ctx.restore();
  }

  misses(chart) {
    clipped(chart, (context) => {
      for (const [t, kind, weight] of this.run.moments) {
        if (kind !== "deadline" || weight !== "bad") continue;
        glyph(context, kind, chart.valToPos(t, "x", true) / devicePixelRatio, chart.bbox.top / devicePixelRatio + 9, 5, palette.get("kind-stop"), palette.get("card"));
      }
    });
  }

  addLanes() {
    const lanes = new Lanes(this.run), count = lanes.all.length;
    const chart = this.make("lanes", "what happened", [element("span", {}, SIGNS)], {
      height: count * LANE_PX + 26, scales: this.scales({ y: { range: [0, count] } }), series: [{}, { paths: () => null, points: { show: false } }],
      axes: [
        this.timeAxis(true),
        this.axis({ size: AXIS_PX, grid: { show: false }, splits: lanes.all.map((_, place) => place + 0.5), filter: (one, splits) => splits, values: () => lanes.names() }),
      ],
      hooks: { draw: [(one) => lanes.draw(one)] },
    }, [this.run.series.t, new Array(this.run.ticks).fill(0)]);
    lanes.listen(chart);
  }

  listen(chart) {
    let from = null;
    chart.over.addEventListener("mousedown", (event) => { from = [event.clientX, event.clientY]; });
    chart.over.addEventListener("click", (event) => {
      if (from && Math.hypot(event.clientX - from[0], event.clientY - from[1]) > DRAG_PX) return;
      focus.set(rowAt(this.run.series.t, chart.posToVal(event.clientX - chart.over.getBoundingClientRect().left, "x")), this.run.ticks);
    });
    chart.over.addEventListener("dblclick", () => this.zoomTo(0, this.run.end_s));
  }

  zoomAll(source) {
    if (this.zooming) return;
    const { min, max } = source.scales.x;
    if (!Number.isFinite(min)) return;
    this.zooming = true;
    for (const chart of this.all) if (chart !== source && (chart.scales.x.min !== min || chart.scales.x.max !== max)) chart.setScale("x", { min, max });
    this.zooming = false;
    stretch.set(min, max);
    const { t } = this.run.series;
    if (t[focus.row] < min || t[focus.row] > max) focus.set(lastNotAbove(t, min) + (t[0] < min ? 1 : 0), this.run.ticks);
    this.step();
  }

  /** Show what led to a moment, where so much is shown that it could not be seen. */
  lookAt(t) {
    const { min, max } = this.all[0].scales.x;
    if (max - min > TOO_WIDE * LOOK_S) this.zoomTo(t - LOOK_BEFORE * LOOK_S, t + (1 - LOOK_BEFORE) * LOOK_S);
  }

  zoomTo(min, max) {
    const least = 4 * this.run.period_s, wide = Math.max(least, Math.min(max - min, this.run.end_s));
    const from = Math.max(0, Math.min(min, this.run.end_s - wide));
    for (const chart of this.all) chart.setScale("x", { min: from, max: from + wide });
  }

  /** Zoom by a factor and hold what is looked at where it is. */
  zoomBy(factor) {
    const { min, max } = this.all[0].scales.x, t = this.run.series.t[focus.row];
    const held = t >= min && t <= max ? t : (min + max) / 2;
    this.zoomTo(held - (held - min) * factor, held + (max - held) * factor);
  }

  step() {
    const t = this.run.series.t[focus.row];
    const { min, max } = this.all[0].scales.x;
    if (Number.isFinite(min) && (t < min || t > max) && !this.zooming) {
      const wide = max - min;
      this.zoomTo(t - wide / 2, t + wide / 2);
      return;
    }
    for (const chart of this.all) {
      chart.scrub.style.transform = `translateX(${chart.valToPos(t, "x")}px)`;
    }
    this.tell(focus.row);
  }

  hover(chart) {
    if (chart !== this.all[0]) return;
    this.tell(chart.cursor.left >= 0 && chart.cursor.idx !== null && chart.cursor.idx !== undefined ? chart.cursor.idx : focus.row);
  }

  tell(row) {
    for (const { lines, keys, unit } of this.legends) {
      lines.forEach((line, place) => {
        const values = line.own || line.values;
        let told = row;
        while (line.points && told > 0 && !Number.isFinite(values[told])) told--;
        keys[place].lastChild.textContent = number(values[told], 2);
      });
    }
  }

  resize() {
    for (const chart of this.all) chart.setSize({ width: this.place.clientWidth, height: chart.height });
    this.step();
  }

  repaint() {
    for (const chart of this.all) chart.redraw(false);
  }
}
