// What is marked on the map: start, goals, what was bad, and where a replay first differs.
const APART_PX = 6, LATE_APART_PX = 26, MOST_NAMED = 12;

class MapMarks {
  constructor(map) {
    this.map = map;
    this.run = map.run;
  }

  draw(context) {
    const { x, y } = this.run.series, first = x.findIndex(Number.isFinite);
    if (first >= 0) this.label(context, ...this.map.toScreen(x[first], y[first]), "start", palette.get("ink"), () => {
      context.arc(0, 0, 5, 0, 2 * Math.PI);
    });
    this.drawMoments(context);
    this.drawGoals(context);
    if (this.run.first !== null) {
      const row = rowAt(this.run.series.t, this.run.first);
      if (Number.isFinite(x[row])) this.label(context, ...this.map.toScreen(x[row], y[row]), "first difference", palette.get("kind-stop"), () => {
        context.rect(-6, -6, 12, 12);
      });
    }
  }

  /** What was bad, late decisions below all else; of many of a kind in one place one. */
  drawMoments(context) {
    const { t: times, x, y } = this.run.series, taken = new Set();
    const bad = this.run.moments.filter(([t, , weight]) => weight === "bad" && stretch.has(t));
    const late = bad.filter(([, kind]) => kind === "deadline");
    for (const [t, kind] of [...late, ...bad.filter(([, its]) => its !== "deadline")]) {
      const row = rowAt(times, t);
      if (!Number.isFinite(x[row])) continue;
      const [px, py] = this.map.toScreen(x[row], y[row]), apart = kind === "deadline" ? LATE_APART_PX : APART_PX;
      const place = `${kind} ${Math.round(px / apart)} ${Math.round(py / apart)}`;
      if (taken.has(place)) continue;
      taken.add(place);
      glyph(context, kind, px, py, kind === "deadline" ? 4 : 6, palette.get("kind-stop"), palette.get("card"));
    }
  }

  /** The goals of what the charts show: those asked for in it, and the one that was driven to when it begins. */
  drawGoals(context) {
    const goals = this.run.map.goals, before = goals.map(([t, , , accepted]) => accepted && t < stretch.from).lastIndexOf(true);
    const shown = goals.map((goal, place) => [goal, place]).filter(([[t], place]) => stretch.has(t) || place === before);
    for (const [[, gx, gy, accepted], place] of shown) {
      const said = accepted ? "goal" : "refused", number = goals.length > 1 ? ` ${place + 1}` : "";
      const name = shown.length > MOST_NAMED && accepted ? number.trim() : said + number;
      this.label(context, ...this.map.toScreen(gx, gy), name, palette.get(accepted ? "goal" : "soft"), () => {
        context.arc(0, 0, Math.max(4, this.run.map.tolerance_m * this.map.scale), 0, 2 * Math.PI);
        context.moveTo(-9, 0); context.lineTo(9, 0); context.moveTo(0, -9); context.lineTo(0, 9);
      });
    }
  }

  label(context, px, py, text, colour, shape) {
    context.save();
    context.translate(px, py);
    context.lineCap = "butt";
    for (const [style, width] of [[palette.get("card"), 5], [colour, 2]]) {
      context.strokeStyle = style; context.lineWidth = width;
      context.beginPath(); shape(); context.stroke();
    }
    context.font = "600 12px system-ui, sans-serif";
    context.lineWidth = 4; context.strokeStyle = palette.get("card"); context.fillStyle = colour; context.lineJoin = "round";
    const wide = context.measureText(text).width, x = px + 12 + wide > this.map.front.clientWidth ? -12 - wide : 12;
    context.strokeText(text, x, -8); context.fillText(text, x, -8);
    context.restore();
  }
}
