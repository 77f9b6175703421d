// Charts over time, all with one time axis: drag to zoom, double-click for all of it, click to go there.
const AXIS_PX = 84, PAD_PX = 14, DRAG_PX = 5, LANE_PX = 21, USUAL_HEIGHT_PX = 900, MOST_TALL = 1.6;

/** Draw the sign of a kind of moment; signs differ in shape, not in colour alone. */
function glyph(context, kind, x, y, size, colour, halo) {
  context.save();
  context.translate(x, y);
  context.beginPath();
  if (kind === "goal" || kind === "state") { context.moveTo(0, -size); context.lineTo(size, 0); context.lineTo(0, size); context.lineTo(-size, 0); context.closePath(); }
  else if (kind === "memory") { context.moveTo(0, -size); context.lineTo(size, size * 0.8); context.lineTo(-size, size * 0.8); context.closePath(); }
  else if (kind === "deadline" || kind === "fault") { const s = size * 0.8; context.moveTo(-s, -s); context.lineTo(s, s); context.moveTo(s, -s); context.lineTo(-s, s); }
  else if (kind === "e-stop") { for (let k = 0; k < 8; k++) context.lineTo(size * Math.cos(Math.PI * (k + 0.5) / 4), size * Math.sin(Math.PI * (k + 0.5) / 4)); context.closePath(); }
  else if (kind === "gap") context.rect(-size * 0.35, -size, size * 0.7, 2 * size);
  else if (kind === "recovery") context.rect(-size * 0.8, -size * 0.8, size * 1.6, size * 1.6);
  else context.arc(0, 0, size * 0.8, 0, 2 * Math.PI);
  const crossed = kind === "deadline" || kind === "fault";
  context.lineWidth = crossed ? 5 : 2; context.strokeStyle = halo; context.stroke();
  if (crossed) { context.lineWidth = 2.4; context.strokeStyle = colour; context.stroke(); }
  else { context.fillStyle = colour; context.fill(); }
  context.restore();
}

class Charts {
  constructor(run, place) {
    this.run = run;
    this.place = place;
    this.tip = byId("tip");
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
    this.clipped(chart, (context) => {
      for (const [t, kind, weight] of this.run.moments) {
        if (kind !== "deadline" || weight !== "bad") continue;
        glyph(context, kind, chart.valToPos(t, "x", true) / devicePixelRatio, chart.bbox.top / devicePixelRatio + 9, 5, palette.get("kind-stop"), palette.get("card"));
      }
    });
  }

  /** Draw in CSS pixels within the plotting area. */
  clipped(chart, draw) {
    const { ctx, bbox } = chart;
    ctx.save();
    ctx.beginPath(); ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height); ctx.clip();
    ctx.scale(devicePixelRatio, devicePixelRatio);
    draw(ctx);
    ctx.restore();
  }

  addLanes() {
    const lanes = [{ name: "events", spans: [] }, ...this.run.lanes], count = lanes.length;
    this.lanes = lanes;
    const signs = "◆ goal or state, ▲ memory reset, ✕ deadline or engine, ⬣ e-stop, ■ recovery, ● sensor or note";
    const chart = this.make("lanes", "what happened", [element("span", {}, signs)], {
      height: count * LANE_PX + 26, scales: this.scales({ y: { range: [0, count] } }), series: [{}, { paths: () => null, points: { show: false } }],
      axes: [
        this.timeAxis(true),
        this.axis({ size: AXIS_PX, grid: { show: false }, splits: lanes.map((_, place) => place + 0.5), filter: (one, splits) => splits,
          values: () => lanes.map((_, place) => this.clippedName(lanes[count - 1 - place].name)) }),
      ],
      hooks: { draw: [(one) => this.drawLanes(one)] },
    }, [this.run.series.t, new Array(this.run.ticks).fill(0)]);
    chart.over.addEventListener("mousemove", (event) => this.showTip(chart, event));
    chart.over.addEventListener("mouseleave", () => { this.tip.hidden = true; });
    this.lanesChart = chart;
  }

  clippedName(name) { return name.length > 14 ? `${name.slice(0, 13)}…` : name; }

  drawLanes(chart) {
    this.clipped(chart, (context) => {
      const at = (t) => chart.valToPos(t, "x", true) / devicePixelRatio, top = chart.bbox.top / devicePixelRatio;
      const left = chart.bbox.left / devicePixelRatio, right = left + chart.bbox.width / devicePixelRatio;
      context.font = "11px system-ui, sans-serif"; context.textBaseline = "middle"; context.textAlign = "left";
      this.lanes.forEach((lane, place) => {
        let drawnTo = -Infinity;
        for (const [from, to, label, kind] of lane.spans) {
          const begin = Math.max(left - 2, at(from)), end = Math.min(right + 2, at(to));
          if (end < left || begin > right || (end <= drawnTo && kind === "free")) continue;
          this.drawSpan(context, begin, Math.max(end, begin + 1), top + place * LANE_PX + 2, label, kind);
          drawnTo = end;
        }
      });
      this.drawMoments(context, at, top + LANE_PX / 2, left, right);
      context.fillStyle = palette.get("soft");
      for (const [from, to] of this.run.gaps) context.fillRect(at(from), top, Math.max(2, at(to) - at(from)), this.lanes.length * LANE_PX);
      if (this.run.first !== null) {
        context.fillStyle = palette.get("kind-stop");
        context.fillRect(at(this.run.first) - 1.25, top, 2.5, this.lanes.length * LANE_PX);
      }
    });
  }

  drawSpan(context, begin, end, y, label, kind) {
    const tall = LANE_PX - 4;
    context.fillStyle = palette.get(`kind-${kind}`);
    context.fillRect(begin, y, end - begin, tall);
    if (kind === "stop" || kind === "lost") this.hatch(context, begin, end, y, tall);
    context.fillStyle = palette.get(`on-${kind}`);
    context.fillText(this.fitting(context, label, end - begin - 9), begin + 5, y + tall / 2 + 0.5);
  }

  /** Return as much of a text as there is room for; nothing where that would say nothing. */
  fitting(context, text, room) {
    if (room < 16 || context.measureText(text).width <= room) return room < 16 ? "" : text;
    let length = text.length;
    while (length > 0 && context.measureText(`${text.slice(0, length)}…`).width > room) length--;
    return length < 3 ? "" : `${text.slice(0, length)}…`;
  }

  hatch(context, begin, end, y, tall) {
    context.save();
    context.beginPath(); context.rect(begin, y, end - begin, tall); context.clip();
    context.strokeStyle = palette.get("hatch"); context.lineWidth = 1.2;
    context.beginPath();
    for (let x = begin - tall; x < end; x += 6) { context.moveTo(x, y + tall); context.lineTo(x + tall, y); }
    context.stroke();
    context.restore();
  }

  drawMoments(context, at, y, left, right) {
    const last = new Map();
    for (const weight of ["plain", "warning", "bad"]) {
      const colour = palette.get(weight === "bad" ? "kind-stop" : weight === "warning" ? "kind-zone" : "soft");
      for (const [t, kind, its] of this.run.moments) {
        const x = at(t);
        if (its !== weight || x < left - 6 || x > right + 6 || x - (last.get(kind + its) ?? -9) < 2) continue;
        last.set(kind + its, x);
        glyph(context, kind, x, y, 5, colour, palette.get("card"));
      }
    }
  }

  showTip(chart, event) {
    const t = chart.posToVal(event.offsetX, "x"), near = chart.posToVal(event.offsetX + 6, "x") - t;
    const lane = this.lanes[Math.floor(event.offsetY / LANE_PX)];
    let said = "";
    if (lane && lane.spans.length) {
      const span = lane.spans.find(([from, to]) => t >= from && t < to);
      if (span) said = `${lane.name}: ${span[2]}, ${number(span[0], 2)} to ${number(span[1], 2, "s")}`;
    } else {
      const found = this.run.moments.filter((one) => Math.abs(one[0] - t) <= near);
      said = found.slice(0, 6).map((one) => `${number(one[0], 2, "s")}  ${one[3]}`).join("\n") + (found.length > 6 ? `\nand ${found.length - 6} more` : "");
    }
    this.tip.hidden = said === "";
    this.tip.textContent = said;
    const wide = this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(8, Math.min(event.clientX + 12, window.innerWidth - wide - 8))}px`;
    this.tip.style.top = `${event.clientY + 16}px`;
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
    this.step();
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
