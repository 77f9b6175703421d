// What held for a while and what happened, a lane each; pointing at it tells what.
const LANE_PX = 21;
const SIGNS = "◆ goal or state, ▲ memory reset, ✕ deadline or engine, ⬣ e-stop, ■ recovery, ● sensor or note";

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

/** Draw in CSS pixels within the plotting area. */
function clipped(chart, draw) {
  const { ctx, bbox } = chart;
  ctx.save();
  ctx.beginPath(); ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height); ctx.clip();
  ctx.scale(devicePixelRatio, devicePixelRatio);
  draw(ctx);
  ctx.restore();
}

class Lanes {
  constructor(run) {
    this.run = run;
    const own = { memory: "memory", deadline: "deadlines" };
    const lane = (name, has) => ({ name, spans: [], moments: run.moments.filter(([, kind]) => has(kind)) });
    const apart = Object.entries(own).map(([kind, name]) => lane(name, (one) => one === kind)).filter(({ moments }) => moments.length);
    this.all = [lane("events", (kind) => !(kind in own)), ...apart, ...run.lanes];
    this.tip = byId("tip");
  }

  /** Return the names from the lowest lane up, as the axis has them. */
  names() {
    return this.all.map(({ name }) => (name.length > 14 ? `${name.slice(0, 13)}…` : name)).reverse();
  }

  listen(chart) {
    chart.over.addEventListener("mousemove", (event) => this.showTip(chart, event));
    chart.over.addEventListener("mouseleave", () => { this.tip.hidden = true; });
  }

  draw(chart) {
    clipped(chart, (context) => {
      const at = (t) => chart.valToPos(t, "x", true) / devicePixelRatio, top = chart.bbox.top / devicePixelRatio;
      const left = chart.bbox.left / devicePixelRatio, right = left + chart.bbox.width / devicePixelRatio;
      context.font = "11px system-ui, sans-serif"; context.textBaseline = "middle"; context.textAlign = "left";
      this.all.forEach((lane, place) => {
        let drawnTo = -Infinity;
        for (const [from, to, label, kind] of lane.spans) {
          const begin = Math.max(left - 2, at(from)), end = Math.min(right + 2, at(to));
          if (end < left || begin > right || (end <= drawnTo && kind === "free")) continue;
          this.drawSpan(context, begin, Math.max(end, begin + 1), top + place * LANE_PX + 2, label, kind);
          drawnTo = end;
        }
      });
      this.all.forEach((lane, place) => this.drawMoments(context, lane.moments || [], at, top + (place + 0.5) * LANE_PX, left, right));
      context.fillStyle = palette.get("soft");
      for (const [from, to] of this.run.gaps) context.fillRect(at(from), top, Math.max(2, at(to) - at(from)), this.all.length * LANE_PX);
      if (this.run.first !== null) {
        context.fillStyle = palette.get("kind-stop");
        context.fillRect(at(this.run.first) - 1.25, top, 2.5, this.all.length * LANE_PX);
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

  drawMoments(context, moments, at, y, left, right) {
    const last = new Map();
    for (const weight of ["plain", "warning", "bad"]) {
      const colour = palette.get(weight === "bad" ? "kind-stop" : weight === "warning" ? "kind-zone" : "soft");
      for (const [t, kind, its] of moments) {
        const x = at(t);
        if (its !== weight || x < left - 6 || x > right + 6 || x - (last.get(kind + its) ?? -9) < 2) continue;
        last.set(kind + its, x);
        glyph(context, kind, x, y, 5, colour, palette.get("card"));
      }
    }
  }

  showTip(chart, event) {
    const t = chart.posToVal(event.offsetX, "x"), near = chart.posToVal(event.offsetX + 6, "x") - t;
    const lane = this.all[Math.floor(event.offsetY / LANE_PX)];
    let said = "";
    if (lane && lane.spans.length) {
      const span = lane.spans.find(([from, to]) => t >= from && t < to);
      if (span) said = `${lane.name}: ${span[2]}, ${number(span[0], 2)} to ${number(span[1], 2, "s")}`;
    } else {
      const found = ((lane && lane.moments) || []).filter((one) => Math.abs(one[0] - t) <= near);
      said = found.slice(0, 6).map((one) => `${number(one[0], 2, "s")}  ${one[3]}`).join("\n") + (found.length > 6 ? `\nand ${found.length - 6} more` : "");
    }
    this.tip.hidden = said === "";
    this.tip.textContent = said;
    const wide = this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(8, Math.min(event.clientX + 12, window.innerWidth - wide - 8))}px`;
    this.tip.style.top = `${event.clientY + 16}px`;
  }
}
