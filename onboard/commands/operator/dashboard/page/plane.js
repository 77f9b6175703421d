"use strict";
// The plane: what is drawn, zoom, and gestures. World coordinates are metres in the map frame while the robot is localised
// or something is done to the map, else in its odometry frame; y is to the left (REP-103).

const $ = (id) => document.getElementById(id);
const BLIND = -1, FREE = -2;
const BINS_FROM = -Math.PI;
const DRAG_PX = 14, STROKE_PX = 5;
const ON_MAP = ["pose", "forbid", "allow"];

let robot = null, shape = { path: [], plan: [], footprint: [], places: {} };
// mode: what a tap means: "", goal, pose, forbid, allow; cursor: [x, y, heading or null] of what is being asked for
const view = { x: 0, y: 0, scale: 60, follow: true, mode: "", cursor: null };
let strokes = [];

// ---- Frames

const compose = (a, b) => {
  const c = Math.cos(a[2]), s = Math.sin(a[2]);
  return [a[0] + c * b[0] - s * b[1], a[1] + s * b[0] + c * b[1], a[2] + b[2]];
};
const apply = (pose, point) => compose(pose, [point[0], point[1], 0]);
const located = () => Boolean(robot && robot.map_from_odom);
const onMap = () => located() || ON_MAP.includes(view.mode);
const worldFrame = () => (onMap() ? "map" : "odom");
const worldFromOdom = () => (robot && robot.map_from_odom) || [0, 0, 0];
function pose() {
  if (!robot || (onMap() && !located())) return null;
  if (robot.odom_from_base) return compose(worldFromOdom(), robot.odom_from_base);
  const drive = robot.drive || {};
  return [Number(drive.x_m) || 0, Number(drive.y_m) || 0, Number(drive.yaw_rad) || 0];
}
function fromFrame(frame) {
  if (/base/.test(frame)) return pose();
  return /map/.test(frame) ? [0, 0, 0] : worldFromOdom();
}

// ---- Drawing

const canvas = $("plane"), pen = canvas.getContext("2d");
let colours = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["back", "card", "ink", "quiet", "line", "go", "warn", "stop", "blue", "blind", "path"])
    colours[name] = style.getPropertyValue(`--${name}`).trim();
}
const toScreen = (p) => [
  canvas.clientWidth / 2 + (p[0] - view.x) * view.scale,
  canvas.clientHeight / 2 - (p[1] - view.y) * view.scale,
];
const toWorld = (x, y) => [
  view.x + (x - canvas.clientWidth / 2) / view.scale,
  view.y - (y - canvas.clientHeight / 2) / view.scale,
];

function trace(points, frame) {
  pen.beginPath();
  points.forEach((p, i) => {
    const [x, y] = toScreen(apply(frame, p));
    i ? pen.lineTo(x, y) : pen.moveTo(x, y);
  });
}
function line(points, frame, colour, width = 2, closed = false, dash = []) {
  if (!points || points.length < 2 || !frame) return;
  trace(points, frame);
  if (closed) pen.closePath();
  pen.setLineDash(dash);
  pen.lineWidth = width;
  pen.strokeStyle = colour;
  pen.stroke();
  pen.setLineDash([]);
}
function dots(points, frame, colour, size) {
  if (!frame) return;
  pen.fillStyle = colour;
  for (const p of points || []) {
    const [x, y] = toScreen(apply(frame, p));
    pen.fillRect(x - size / 2, y - size / 2, size, size);
  }
}

// A picture that lies in the map, loaded again when its number changes.
class Layer {
  constructor(path) {
    this.path = path;
    this.image = new Image();
    this.image.addEventListener("load", () => draw());
  }
  follow(meta) {
    if (!meta || (this.meta && this.meta.number === meta.number)) return;
    this.meta = meta;
    this.image.src = `${this.path}?${meta.number}`;
  }
  draw() {
    if (!this.meta || !this.image.complete || !this.image.naturalWidth) return;
    const map = this.meta, [x, y] = toScreen(map.corner), size = map.cell_m * view.scale;
    pen.save();
    pen.translate(x, y);
    pen.rotate(-map.corner[2]);
    pen.imageSmoothingEnabled = size < 1;
    pen.drawImage(this.image, 0, -map.rows * size, map.columns * size, map.rows * size);
    pen.restore();
  }
}
const building = new Layer("api/map.png"), forbidden = new Layer("api/keep_out.png");

function grid() {
  const step = view.scale > 30 ? 1 : view.scale > 8 ? 5 : 20;
  const [left, top] = toWorld(0, 0), [right, bottom] = toWorld(canvas.clientWidth, canvas.clientHeight);
  pen.strokeStyle = colours.line;
  pen.lineWidth = 1;
  pen.globalAlpha = 0.5;
  pen.beginPath();
  for (let x = Math.ceil(left / step) * step; x <= right; x += step) {
    const at = toScreen([x, 0])[0];
    pen.moveTo(at, 0); pen.lineTo(at, canvas.clientHeight);
  }
  for (let y = Math.ceil(bottom / step) * step; y <= top; y += step) {
    const at = toScreen([0, y])[1];
    pen.moveTo(0, at); pen.lineTo(canvas.clientWidth, at);
  }
  pen.stroke();
  pen.globalAlpha = 1;
  $("scale").textContent = `${worldFrame()} frame, grid ${step} m`;
}
function scan(at) {
  const ranges = robot.scan || [], step = 2 * Math.PI / (ranges.length || 1);
  const [x, y] = toScreen(at), points = [];
  ranges.forEach((range, i) => {
    const angle = BINS_FROM + (i + 0.5) * step;
    if (range === BLIND) {
      pen.globalAlpha = 0.6;
      pen.fillStyle = colours.blind;
      pen.beginPath();
      pen.moveTo(x, y);
      pen.arc(x, y, 1.5 * view.scale, -(at[2] + angle - step / 2), -(at[2] + angle + step / 2), true);
      pen.fill();
      pen.globalAlpha = 1;
    } else if (range !== FREE) points.push([range / 100 * Math.cos(angle), range / 100 * Math.sin(angle)]);
  });
  dots(points, at, colours.stop, 4);
}
function brush() {
  pen.lineCap = pen.lineJoin = "round";
  for (const stroke of strokes) {
    pen.globalAlpha = 0.5;
    pen.strokeStyle = stroke.erase ? colours.go : colours.stop;
    pen.lineWidth = 2 * stroke.radius_m * view.scale;
    trace([...stroke.points, stroke.points[stroke.points.length - 1]], [0, 0, 0]);
    pen.stroke();
  }
  pen.lineCap = "butt";
  pen.lineJoin = "miter";
  pen.globalAlpha = 1;
}
function names() {
  pen.font = "600 13px system-ui, sans-serif";
  for (const [name, at] of Object.entries(shape.places || {})) {
    const [x, y] = toScreen(at);
    pen.fillStyle = colours.blue;
    pen.beginPath();
    pen.arc(x, y, 5, 0, 2 * Math.PI);
    pen.fill();
    pen.lineWidth = 4;
    pen.strokeStyle = colours.card;
    pen.strokeText(name, x + 8, y - 9);
    pen.fillText(name, x + 8, y - 9);
  }
}
function ring(place, colour) {
  const [x, y] = toScreen(place);
  pen.strokeStyle = colour;
  pen.lineWidth = 3;
  pen.beginPath();
  pen.arc(x, y, 10, 0, 2 * Math.PI);
  pen.moveTo(x - 16, y); pen.lineTo(x + 16, y);
  pen.moveTo(x, y - 16); pen.lineTo(x, y + 16);
  pen.stroke();
  if (place[2] === undefined || place[2] === null) return;
  const c = Math.cos(place[2]), s = -Math.sin(place[2]), end = [x + 46 * c, y + 46 * s];
  pen.beginPath();
  pen.moveTo(x + 10 * c, y + 10 * s);
  pen.lineTo(...end);
  for (const side of [2.6, -2.6]) {
    pen.moveTo(...end);
    pen.lineTo(end[0] + 12 * Math.cos(side + Math.atan2(s, c)), end[1] + 12 * Math.sin(side + Math.atan2(s, c)));
  }
  pen.stroke();
}
function draw() {
  const width = canvas.clientWidth, height = canvas.clientHeight, ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = width * ratio;
    canvas.height = height * ratio;
  }
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.fillStyle = colours.card;
  pen.fillRect(0, 0, width, height);
  if (!robot) return;
  const at = pose(), marks = robot.markers || {};
  if (view.follow && at) [view.x, view.y] = at;
  grid();
  if (onMap()) { // without localisation nobody knows where the map lies
    building.draw();
    forbidden.draw();
    brush();
    names();
  }
  const preview = view.mode === "pose" && view.cursor && view.cursor[2] !== null ? view.cursor : null;
  if (preview || at) scan(preview || at);
  if (at) {
    line(shape.path, worldFromOdom(), colours.path, 2);
    line(shape.plan, worldFromOdom(), colours.go, 3);
    for (const [name, colour] of [["slow_zone", colours.warn], ["stop_zone", colours.stop]])
      if (marks[name]) line(marks[name].points, at, colour, 1, true, [4, 4]);
    if (marks.keep_out) dots(marks.keep_out.points, fromFrame(marks.keep_out.frame), colours.stop, 3);
    if (marks.remembered) dots(marks.remembered.points, fromFrame(marks.remembered.frame), colours.blue, 4);
    if (marks.goals) line(marks.goals.points, fromFrame(marks.goals.frame), colours.go, 1, false, [6, 4]);
    if (marks.goal) ring(apply(fromFrame(marks.goal.frame), marks.goal.points[0]).slice(0, 2), colours.go);
    line(shape.footprint, at, colours.ink, 2, true);
    if (shape.footprint.length) line([[0, 0], [0.25, 0]], at, colours.ink, 3);
    line(robot.arc, at, colours.blue, 3);
  }
  if (preview) line(shape.footprint, preview, colours.blue, 2, true);
  if (view.cursor) ring(view.cursor, colours.blue);
}

// ---- Zoom, and gestures: a finger moves the plane, or does what the mode says; two fingers zoom

function zoom(factor) {
  view.scale = Math.min(400, Math.max(2, view.scale * factor));
  draw();
}
function setFollow(on) {
  view.follow = on;
  $("follow").setAttribute("aria-pressed", String(on));
  draw();
}
function showMap() {
  const map = shape.map;
  if (!map) return;
  [view.x, view.y] = apply(map.corner, [map.columns * map.cell_m / 2, map.rows * map.cell_m / 2]);
  view.scale = Math.max(2, 0.9 * Math.min(canvas.clientWidth / (map.columns * map.cell_m), canvas.clientHeight / (map.rows * map.cell_m)));
  setFollow(false);
}
$("closer").addEventListener("click", () => zoom(1.4));
$("farther").addEventListener("click", () => zoom(1 / 1.4));
$("follow").addEventListener("click", () => setFollow(!view.follow));
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2);
}, { passive: false });

const fingers = new Map();
let from = [0, 0], moved = 0, several = false;
const paints = () => view.mode === "forbid" || view.mode === "allow";
canvas.addEventListener("pointerdown", (event) => {
  fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
  canvas.setPointerCapture(event.pointerId);
  if (fingers.size > 1) {
    if (paints() && !several) strokes.pop();
    several = true;
    return;
  }
  from = [event.offsetX, event.offsetY];
  moved = 0;
  several = false;
  if (paints())
    strokes.push({ points: [toWorld(...from)], radius_m: Number($("brush").value), erase: view.mode === "allow" });
});
canvas.addEventListener("pointermove", (event) => {
  const before = fingers.get(event.pointerId);
  if (!before) return;
  const now = [event.offsetX, event.offsetY];
  const others = [...fingers].filter(([id]) => id !== event.pointerId);
  if (others.length) {
    const other = others[0][1];
    const apart = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]) || 1;
    zoom(apart(now) / apart(before));
  } else if (several) {
    // the last finger of two
  } else if (paints()) {
    const points = strokes[strokes.length - 1].points, last = toScreen(points[points.length - 1]);
    if (Math.hypot(now[0] - last[0], now[1] - last[1]) > STROKE_PX) points.push(toWorld(...now));
    draw();
  } else if (view.mode) {
    const far = Math.hypot(now[0] - from[0], now[1] - from[1]) > DRAG_PX;
    view.cursor = [...toWorld(...from), far ? Math.atan2(from[1] - now[1], now[0] - from[0]) : null];
    draw();
  } else {
    moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
    if (moved > 8) {
      view.x -= (now[0] - before[0]) / view.scale;
      view.y += (now[1] - before[1]) / view.scale;
      setFollow(false);
    }
  }
  fingers.set(event.pointerId, now);
});
function lift(event) {
  fingers.delete(event.pointerId);
  if (!fingers.size) several = false;
}
canvas.addEventListener("pointercancel", (event) => { view.cursor = null; lift(event); draw(); });
canvas.addEventListener("pointerup", (event) => {
  const one = !several;
  lift(event);
  if (!one || !robot || !view.mode) return;
  if (paints()) painted();
  else {
    const at = toWorld(...from), turned = view.cursor && view.cursor[2] !== null ? view.cursor[2] : null;
    ask(view.mode, [...at, turned]);
  }
});
canvas.addEventListener("keydown", (event) => {
  const steps = { ArrowUp: [0, 1], ArrowDown: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
  if (event.key === "+" || event.key === "=") zoom(1.4);
  else if (event.key === "-") zoom(1 / 1.4);
  else if (event.key === "f") setFollow(!view.follow);
  else if (steps[event.key] && robot && robot.control) {
    const at = view.cursor || pose() || [view.x, view.y], [dx, dy] = steps[event.key];
    view.cursor = [at[0] + 0.25 * dx, at[1] + 0.25 * dy, null];
    draw();
  } else if (event.key === "Enter" && view.cursor) ask(view.mode === "pose" ? "pose" : "goal", view.cursor);
  else return;
  event.preventDefault();
});
