// The path on the map, with what was seen; click to go to the nearest moment, drag to move, buttons or Ctrl+wheel to zoom.
const CLICK_PX = 4, JUMP_M = 0.5, ZOOM_STEP = 1.35, FIT_MARGIN = 0.07, MOST_ZOOM = 400, LEAST_FIT_M = 4;
const SCALE_BARS_M = [0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500];

class MapView {
  constructor(run, figure) {
    this.run = run;
    this.back = figure.querySelector("canvas.back");
    this.front = figure.querySelector("canvas.front");
    this.follow = false;
    this.marks = new MapMarks(this);
    this.walls = run.map.building && this.paintWalls(run.map.building);
    this.bounds = this.findBounds();
    this.listen(figure);
    new ResizeObserver(() => this.fit()).observe(this.front);
    this.fit();
    focus.onChange(() => this.step());
    stretch.onChange(() => this.drawSoon());
  }

  findBounds() {
    const { x, y } = this.run.series, found = [Infinity, Infinity, -Infinity, -Infinity];
    const take = (px, py) => {
      if (!Number.isFinite(px) || !Number.isFinite(py)) return;
      found[0] = Math.min(found[0], px); found[1] = Math.min(found[1], py);
      found[2] = Math.max(found[2], px); found[3] = Math.max(found[3], py);
    };
    for (let row = 0; row < x.length; row++) take(x[row], y[row]);
    for (const [, gx, gy, accepted] of this.run.map.goals) if (accepted) take(gx, gy);
    if (found[0] > found[2]) return [-2, -2, 2, 2];
    const grow = [0, 1].map((axis) => Math.max(1, (LEAST_FIT_M - (found[axis + 2] - found[axis])) / 2));
    return [found[0] - grow[0], found[1] - grow[1], found[2] + grow[0], found[3] + grow[1]];
  }

  fit() {
    const width = this.front.clientWidth, height = this.front.clientHeight, [left, low, right, high] = this.bounds;
    this.scale = (1 - 2 * FIT_MARGIN) * Math.min(width / (right - left), height / (high - low));
    this.centre = [(left + right) / 2, (low + high) / 2];
    this.draw();
  }

  zoom(factor, about = [this.front.clientWidth / 2, this.front.clientHeight / 2]) {
    const held = this.toWorld(...about);
    this.scale = Math.min(MOST_ZOOM, Math.max(0.2, this.scale * factor));
    const moved = this.toWorld(...about);
    this.centre = [this.centre[0] + held[0] - moved[0], this.centre[1] + held[1] - moved[1]];
    this.draw();
  }

  toScreen(x, y) {
    return [this.front.clientWidth / 2 + (x - this.centre[0]) * this.scale, this.front.clientHeight / 2 - (y - this.centre[1]) * this.scale];
  }

  toWorld(px, py) {
    return [this.centre[0] + (px - this.front.clientWidth / 2) / this.scale, this.centre[1] - (py - this.front.clientHeight / 2) / this.scale];
  }

  listen(figure) {
    let held = null;
    this.front.addEventListener("pointerdown", (event) => {
      held = { x: event.offsetX, y: event.offsetY, centre: this.centre, moved: false };
      this.front.setPointerCapture(event.pointerId);
    });
    this.front.addEventListener("pointermove", (event) => {
      if (!held) return;
      const dx = event.offsetX - held.x, dy = event.offsetY - held.y;
      held.moved = held.moved || Math.hypot(dx, dy) > CLICK_PX;
      if (!held.moved) return;
      this.setFollow(false);
      this.centre = [held.centre[0] - dx / this.scale, held.centre[1] + dy / this.scale];
      this.draw();
    });
    this.front.addEventListener("pointerup", (event) => {
      if (held && !held.moved) this.goTo(event.offsetX, event.offsetY);
      held = null;
    });
    this.front.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? ZOOM_STEP : 1 / ZOOM_STEP, [event.offsetX, event.offsetY]);
    }, { passive: false });
    const on = (name, action) => figure.querySelector(`[data-do=${name}]`).addEventListener("click", action);
    on("in", () => this.zoom(ZOOM_STEP));
    on("out", () => this.zoom(1 / ZOOM_STEP));
    on("fit", () => { this.setFollow(false); this.fit(); });
    this.followButton = figure.querySelector("[data-do=follow]");
    on("follow", () => { this.setFollow(!this.follow); this.step(); });
  }

  setFollow(wanted) {
    this.follow = wanted;
    this.followButton.setAttribute("aria-pressed", String(wanted));
  }

  goTo(px, py) {
    const { x, y } = this.run.series;
    const [first, behind] = this.shownRows();
    let best = -1, least = Infinity;
    for (let row = first; row < behind; row++) {
      const [sx, sy] = this.toScreen(x[row], y[row]), away = (sx - px) ** 2 + (sy - py) ** 2;
      if (away < least) { least = away; best = row; }
    }
    if (best >= 0) focus.set(best, this.run.ticks);
  }

  paintWalls({ rows, columns, walls }) {
    const canvas = element("canvas", { width: columns, height: rows }), context = canvas.getContext("2d");
    const image = context.createImageData(columns, rows);
    for (let cell = 0; cell < rows * columns; cell++) {
      if ((walls[cell >> 3] >> (7 - (cell & 7))) & 1) image.data[4 * cell + 3] = 255;
    }
    context.putImageData(image, 0, 0);
    return canvas;
  }

  step() {
    const { x, y } = this.run.series;
    if (this.follow && Number.isFinite(x[focus.row])) {
      this.centre = [x[focus.row], y[focus.row]];
      this.draw();
    } else this.drawFront();
  }

  /** Draw once before the next picture, however often it is asked for. */
  drawSoon() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.draw(); });
  }

  draw() {
    if (this.front.clientWidth === 0) return;
    const { context, height } = cleared(this.back);
    this.drawSeen(context);
    this.drawWalls(context);
    this.drawPath(context);
    this.marks.draw(context);
    this.drawScaleBar(context, height);
    this.drawFront();
  }

  drawWalls(context) {
    const building = this.run.map.building;
    if (!building) return;
    const tinted = element("canvas", { width: this.walls.width, height: this.walls.height }), paint = tinted.getContext("2d");
    paint.drawImage(this.walls, 0, 0);
    paint.globalCompositeOperation = "source-in";
    paint.fillStyle = palette.get("wall");
    paint.fillRect(0, 0, tinted.width, tinted.height);
    context.save();
    context.translate(...this.toScreen(building.corner[0], building.corner[1]));
    context.scale(this.scale * building.cell_m, -this.scale * building.cell_m);
    context.rotate(building.corner[2]);
    context.imageSmoothingEnabled = this.scale * building.cell_m < 1;
    context.drawImage(tinted, 0, 0);
    context.restore();
  }

  drawSeen(context) {
    const { cells, often, cell_m: cell, corner } = this.run.map.seen, size = Math.max(1, cell * this.scale);
    context.fillStyle = palette.get("seen");
    for (let place = 0; place < cells.length; place += 2) {
      context.globalAlpha = often[place / 2] ? 1 : 0.4;
      const [px, py] = this.toScreen(corner[0] + (cells[place] + 0.5) * cell, corner[1] + (cells[place + 1] + 0.5) * cell);
      context.fillRect(px - size / 2, py - size / 2, size, size);
    }
    context.globalAlpha = 1;
  }

  /** Return the first row that the charts show, and the one behind the last. */
  shownRows() {
    const { t } = this.run.series, first = t.findIndex((one) => one >= stretch.from);
    return first < 0 ? [0, 0] : [first, lastNotAbove(t, stretch.to) + 1];
  }

  /** The path that the charts show in the colour of what shaped its commands, the rest as a thin line. */
  drawPath(context) {
    const { x, y } = this.run.series, { names, codes } = this.run.reasons, [first, behind] = this.shownRows();
    context.lineCap = context.lineJoin = "round";
    if (behind - first < x.length) this.strokePath(context, x, y, 0, x.length - 1, "rest", "");
    for (const pass of ["halo", "line"]) {
      let row = first;
      while (row < behind) {
        const kind = names[codes[row]][1];
        let end = row + 1;
        while (end < behind && names[codes[end]][1] === kind) end++;
        this.strokePath(context, x, y, row, Math.min(end, behind - 1), pass, kind);
        row = end;
      }
    }
  }

  strokePath(context, x, y, first, last, pass, kind) {
    context.beginPath();
    let down = false;
    for (let row = first; row <= last; row++) {
      if (!Number.isFinite(x[row])) { down = false; continue; }
      const [px, py] = this.toScreen(x[row], y[row]);
      down = down && Math.hypot(x[row] - x[row - 1], y[row] - y[row - 1]) < JUMP_M;
      if (down) context.lineTo(px, py); else context.moveTo(px, py);
      down = true;
    }
    const plain = { halo: "card", rest: "measured" }[pass];
    context.strokeStyle = plain ? palette.get(plain) : palette.get(`path-${kind}`) || palette.get(`kind-${kind}`);
    context.lineWidth = { halo: 6, rest: 1, line: 3.2 }[pass];
    context.stroke();
  }

  drawScaleBar(context, height) {
    const longest = SCALE_BARS_M.filter((one) => one * this.scale < 0.3 * this.front.clientWidth).pop() ?? SCALE_BARS_M[0];
    const wide = longest * this.scale, y = height - 14;
    context.strokeStyle = context.fillStyle = palette.get("soft");
    context.lineWidth = 1.5; context.lineCap = "butt";
    context.beginPath();
    context.moveTo(14, y - 4); context.lineTo(14, y); context.lineTo(14 + wide, y); context.lineTo(14 + wide, y - 4);
    context.stroke();
    context.font = "11px system-ui, sans-serif";
    context.fillText(`${longest} m`, 20 + wide, y + 1);
  }

  drawFront() {
    const { context } = cleared(this.front), { x, y, yaw } = this.run.series, row = focus.row;
    if (!Number.isFinite(x[row])) return;
    const scan = scanAt(this.run, row), radius = Math.max(6, this.run.robot.radius_m * this.scale);
    context.fillStyle = palette.get("scan");
    for (const [bearing, range] of scan.hits(scan.mm)) {
      const heading = yaw[scan.row] + bearing;
      const [px, py] = this.toScreen(x[scan.row] + range * Math.cos(heading), y[scan.row] + range * Math.sin(heading));
      context.fillRect(px - 1.5, py - 1.5, 3, 3);
    }
    const [px, py] = this.toScreen(x[row], y[row]);
    context.beginPath();
    context.arc(px, py, radius, 0, 2 * Math.PI);
    context.fillStyle = palette.get("robot"); context.fill();
    context.lineWidth = 2; context.strokeStyle = palette.get("card"); context.stroke();
    context.beginPath();
    context.moveTo(px, py); context.lineTo(px + 0.95 * radius * Math.cos(yaw[row]), py - 0.95 * radius * Math.sin(yaw[row]));
    context.lineWidth = 2.5; context.lineCap = "round"; context.stroke();
  }
}
