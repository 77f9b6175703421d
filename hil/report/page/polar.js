// The scan around the robot, ahead is up; what the robot wanted and sent as the arcs that it would drive.
const ARC_S = 1.5, ARC_STEPS = 24;

/** Return the scan that was there at a row: ranges [mm] of its bins, those of the limits or null, and whose they are. */
function scanAt(run, row) {
  const place = lastNotAbove(run.scans.rows, row), bins = run.scans.azimuths.length;
  const cut = (all) => all && all.subarray(place * bins, (place + 1) * bins);
  return {
    row: run.scans.rows[place],
    mm: cut(run.scans.mm),
    limits: cut(run.scans.limits_mm),
    * hits(ranges) {
      for (let bin = 0; bin < bins; bin++) if (ranges[bin] < BLIND) yield [run.scans.azimuths[bin], ranges[bin] / 1000];
    },
  };
}

class PolarView {
  constructor(run, figure) {
    this.run = run;
    this.canvas = figure.querySelector("canvas");
    this.note = figure.querySelector("[data-of=scan]");
    this.far = 5;
    for (const button of figure.querySelectorAll("[data-far]")) {
      button.addEventListener("click", () => {
        this.far = Number(button.dataset.far);
        for (const one of figure.querySelectorAll("[data-far]")) one.setAttribute("aria-pressed", String(one === button));
        this.draw();
      });
    }
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    focus.onChange(() => this.draw());
  }

  at(bearing, range) {
    return [this.middle[0] - range * this.scale * Math.sin(bearing), this.middle[1] - range * this.scale * Math.cos(bearing)];
  }

  draw() {
    if (this.canvas.clientWidth === 0) return;
    const { context, width, height } = cleared(this.canvas);
    this.middle = [width / 2, height / 2];
    this.rim = Math.min(width, height) / 2 - 16;
    this.scale = this.rim / this.far;
    const scan = scanAt(this.run, focus.row), replayed = this.replayedAt(focus.row);
    context.save();
    context.beginPath(); context.arc(...this.middle, this.rim, 0, 2 * Math.PI); context.clip();
    this.drawBlind(context, scan.mm);
    this.drawFree(context, scan.mm);
    context.restore();
    this.drawRings(context);
    context.save();
    context.beginPath(); context.arc(...this.middle, this.rim, 0, 2 * Math.PI); context.clip();
    if (scan.limits) this.drawHits(context, scan, scan.limits, "limits-scan", true);
    this.drawHits(context, scan, scan.mm, "scan", false);
    if (replayed) this.drawHits(context, scan, replayed, "kind-stop", true);
    this.drawRobot(context);
    context.restore();
    this.drawGoal(context);
    const away = focus.row - scan.row;
    this.note.textContent = (away ? `scan of tick ${this.run.series.slot[scan.row].toLocaleString("en")}` : "") +
      (replayed ? " rings: as replayed" : scan.limits ? " rings: the scan of the limits" : "");
  }

  replayedAt(row) {
    const replayed = this.run.replayed;
    return replayed && rowAt(this.run.series.t, this.run.first) === row ? replayed.mm : null;
  }

  wedge(context, bin, from, to) {
    const bins = this.run.scans.azimuths.length, azimuth = this.run.scans.azimuths[bin], half = Math.PI / bins * 1.02;
    const begin = -azimuth - half - Math.PI / 2, end = -azimuth + half - Math.PI / 2;
    context.beginPath();
    context.arc(...this.middle, to * this.scale, begin, end);
    context.arc(...this.middle, from * this.scale, end, begin, true);
    context.fill();
  }

  drawBlind(context, mm) {
    context.fillStyle = palette.get("blind");
    for (let bin = 0; bin < mm.length; bin++) if (mm[bin] === BLIND) this.wedge(context, bin, 0, this.far);
  }

  drawFree(context, mm) {
    context.fillStyle = palette.get("free");
    for (let bin = 0; bin < mm.length; bin++) {
      if (mm[bin] !== BLIND) this.wedge(context, bin, 0, Math.min(this.far, mm[bin] === NOTHING_SEEN ? this.far : mm[bin] / 1000));
    }
  }

  drawRings(context) {
    const step = this.far > 6 ? 2 : this.far > 3 ? 1 : 0.5;
    context.lineWidth = 1; context.strokeStyle = palette.get("line"); context.fillStyle = palette.get("soft");
    context.font = "11px system-ui, sans-serif"; context.textAlign = "left"; context.textBaseline = "middle";
    for (let range = step; range <= this.far + 1e-9; range += step) {
      context.beginPath(); context.arc(...this.middle, range * this.scale, 0, 2 * Math.PI); context.stroke();
    }
    for (const bearing of [0, 90, 180, -90]) {
      const angle = bearing * Math.PI / 180;
      context.beginPath(); context.moveTo(...this.middle); context.lineTo(...this.at(angle, this.far)); context.stroke();
      this.drawBearing(context, bearing, angle);
    }
    context.textAlign = "left";
    for (let range = 2 * step; range <= this.far + 1e-9; range += 2 * step) {
      const [x, y] = this.at(-Math.PI / 4, range);
      context.lineWidth = 3; context.strokeStyle = palette.get("card");
      context.strokeText(`${range} m`, x - 10, y); context.fillText(`${range} m`, x - 10, y);
    }
  }

  /** Ahead and behind stand beyond the rim, left and right within it, above their line: a narrow view has no room beside. */
  drawBearing(context, bearing, angle) {
    const beside = Math.abs(bearing) === 90;
    const [x, y] = this.at(angle, this.far + (beside ? -4 : 9) / this.scale);
    context.textAlign = bearing === 90 ? "left" : bearing === -90 ? "right" : "center";
    context.save();
    context.lineWidth = 3; context.strokeStyle = palette.get("card");
    if (beside) context.strokeText(`${bearing}°`, x, y - 8);
    context.fillText(`${bearing}°`, x, beside ? y - 8 : y);
    context.restore();
  }

  drawHits(context, scan, ranges, colour, hollow) {
    context.fillStyle = context.strokeStyle = palette.get(colour);
    context.lineWidth = 1.4;
    for (const [bearing, range] of scan.hits(ranges)) {
      const [x, y] = this.at(bearing, range);
      context.beginPath(); context.arc(x, y, hollow ? 4 : 2.3, 0, 2 * Math.PI);
      if (hollow) context.stroke(); else context.fill();
    }
  }

  drawRobot(context) {
    const { v_wanted, w_wanted, v_sent, w_sent } = this.run.series, row = focus.row, radius = this.run.robot.radius_m * this.scale;
    this.drawArc(context, v_sent[row], w_sent[row], "sent", [], 3);
    this.drawArc(context, v_wanted[row], w_wanted[row], "wanted", [5, 4], 2);
    context.beginPath(); context.arc(...this.middle, radius, 0, 2 * Math.PI);
    context.fillStyle = palette.get("robot"); context.fill();
    context.beginPath();
    context.moveTo(...this.middle); context.lineTo(this.middle[0], this.middle[1] - radius);
    context.lineWidth = 2; context.strokeStyle = palette.get("card"); context.stroke();
  }

  drawArc(context, v, w, colour, dash, wide) {
    if (!Number.isFinite(v) || !Number.isFinite(w) || (v === 0 && w === 0)) return;
    context.beginPath(); context.moveTo(...this.middle);
    let x = 0, y = 0, heading = 0;
    for (let step = 0; step < ARC_STEPS; step++) {
      heading += w * ARC_S / ARC_STEPS / 2;
      x += v * Math.cos(heading) * ARC_S / ARC_STEPS; y += v * Math.sin(heading) * ARC_S / ARC_STEPS;
      heading += w * ARC_S / ARC_STEPS / 2;
      context.lineTo(this.middle[0] - y * this.scale, this.middle[1] - x * this.scale);
    }
    context.strokeStyle = palette.get(colour); context.lineWidth = wide; context.setLineDash(dash); context.stroke(); context.setLineDash([]);
  }

  /** Which way the goal lies, on the rim or where it is. */
  drawGoal(context) {
    const { t, x, y, yaw } = this.run.series, row = focus.row;
    const goal = this.run.map.goals.filter(([when, , , accepted]) => accepted && when <= t[row]).pop();
    if (!goal || !Number.isFinite(x[row])) return;
    const dx = goal[1] - x[row], dy = goal[2] - y[row], range = Math.min(this.far, Math.hypot(dx, dy));
    const [px, py] = this.at(Math.atan2(dy, dx) - yaw[row], range);
    if (Math.hypot(dx, dy) > this.far) {
      glyph(context, "goal", px, py, 6, palette.get("goal"), palette.get("card"));
      return;
    }
    context.beginPath(); context.arc(px, py, Math.max(4, this.run.map.tolerance_m * this.scale), 0, 2 * Math.PI);
    context.lineWidth = 2; context.strokeStyle = palette.get("goal"); context.stroke();
  }
}
