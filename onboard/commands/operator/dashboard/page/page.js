"use strict";
// The page of `onboard dashboard`: one stream in, a few orders out. World coordinates are metres in the map frame while
// the robot is localised, else in its odometry frame; y is to the left (REP-103).

const $ = (id) => document.getElementById(id);
const BLIND = -1, FREE = -2;
const BINS_FROM = -Math.PI;
const STALE_MS = 2500;
const HISTORY = 240;

let robot = null, shape = { path: [], footprint: [] };
let heardAt = 0;
let token = sessionStorage.getItem("token") || "";
const view = { x: 0, y: 0, scale: 60, follow: true, placing: false, cursor: null };
const history = { "decision p99 [ms]": [], "lateness max [ms]": [], "oldest input [ms]": [], "battery [%]": [] };

// ---- The token stands behind # in the address, which no browser sends to a server

if (location.hash.startsWith("#token=")) {
  token = decodeURIComponent(location.hash.slice(7));
  sessionStorage.setItem("token", token);
  window.history.replaceState(null, "", location.pathname);
}

// ---- Orders

function say(text, bad = false) {
  $("said").textContent = text;
  $("said").className = bad ? "bad" : "";
}

async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  const reply = await fetch(path, { method: "POST", headers, body: JSON.stringify(body || {}), keepalive: true });
  const said = await reply.json().catch(() => ({}));
  if (!reply.ok) throw new Error(said.error || `${path}: ${reply.status}`);
  return said;
}

async function order(name, body) {
  say(`${name} …`);
  try {
    say((await post(`api/${name}`, body)).said);
  } catch (error) {
    say(error.message, true);
  }
}

let stopping = false;
async function stop() {
  if (stopping) return;
  stopping = true;
  say("stop …");
  for (let attempt = 0; attempt < 3; attempt++) {
    try {
      const told = await post("api/stop");
      say(told.live ? "Stopped. A new goal releases it." : "Stop is pressed, but no runtime is heard.", !told.live);
      stopping = false;
      return;
    } catch (error) {
      say(`STOP NOT SENT (${error.message}): use the robot's own e-stop`, true);
    }
  }
  stopping = false;
}

$("stop").addEventListener("pointerdown", stop);
$("stop").addEventListener("click", stop);
for (const name of ["pause", "resume", "cancel"]) $(name).addEventListener("click", () => order(name));
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (!$("ask").hidden) ask(null);
  else stop();
});

// ---- A goal: chosen on the plane, confirmed, sent

let asked = null;
function ask(place) {
  asked = place;
  $("ask").hidden = place === null;
  if (place === null) {
    view.cursor = null;
    $("plane").focus();
  } else {
    const frame = worldFrame();
    const released = robot.stopped ? " This releases the stop." : "";
    $("question").textContent = `Drive to x ${place[0].toFixed(2)} m, y ${place[1].toFixed(2)} m (${frame})?${released}`;
    $("yes").focus();
  }
  draw();
}
$("yes").addEventListener("click", () => {
  const [x, y] = asked;
  ask(null);
  setPlacing(false);
  order("goal", { x, y, frame: worldFrame() });
});
$("no").addEventListener("click", () => ask(null));
function setPlacing(on) {
  view.placing = on;
  $("place").setAttribute("aria-pressed", String(on));
  $("hint").textContent = on ? "Tap the place to drive to." : "Tap “Set a goal”, then a place on the plane.";
}
$("place").addEventListener("click", () => setPlacing(!view.placing));

// ---- Frames

const compose = (a, b) => {
  const c = Math.cos(a[2]), s = Math.sin(a[2]);
  return [a[0] + c * b[0] - s * b[1], a[1] + s * b[0] + c * b[1], a[2] + b[2]];
};
const apply = (pose, point) => compose(pose, [point[0], point[1], 0]);
const worldFrame = () => (robot && robot.map_from_odom ? "map" : "odom");
const worldFromOdom = () => (robot && robot.map_from_odom) || [0, 0, 0];
function pose() {
  if (!robot) return [0, 0, 0];
  if (robot.odom_from_base) return compose(worldFromOdom(), robot.odom_from_base);
  const drive = robot.drive || {};
  return [Number(drive.x_m) || 0, Number(drive.y_m) || 0, Number(drive.yaw_rad) || 0];
}
function fromFrame(frame) {
  if (/base/.test(frame)) return pose();
  return /map/.test(frame) ? [0, 0, 0] : worldFromOdom();
}

// ---- The plane

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

function line(points, frame, colour, width = 2, closed = false, dash = []) {
  if (!points || points.length < 2) return;
  pen.beginPath();
  points.forEach((p, i) => {
    const [x, y] = toScreen(apply(frame, p));
    i ? pen.lineTo(x, y) : pen.moveTo(x, y);
  });
  if (closed) pen.closePath();
  pen.setLineDash(dash);
  pen.lineWidth = width;
  pen.strokeStyle = colour;
  pen.stroke();
  pen.setLineDash([]);
}
function dots(points, frame, colour, size) {
  pen.fillStyle = colour;
  for (const p of points || []) {
    const [x, y] = toScreen(apply(frame, p));
    pen.fillRect(x - size / 2, y - size / 2, size, size);
  }
}
const plan = new Image();
let planNumber = 0;
plan.addEventListener("load", () => draw());
function building() {
  const map = shape.map;
  if (!map || !plan.complete || !plan.naturalWidth) return;
  const [x, y] = toScreen(map.corner), size = map.cell_m * view.scale;
  pen.save();
  pen.translate(x, y);
  pen.rotate(-map.corner[2]);
  pen.imageSmoothingEnabled = size < 1;
  pen.drawImage(plan, 0, -map.rows * size, map.columns * size, map.rows * size);
  pen.restore();
}
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
      pen.fillStyle = colours.blind;
      pen.beginPath();
      pen.moveTo(x, y);
      pen.arc(x, y, 1.5 * view.scale, -(at[2] + angle - step / 2), -(at[2] + angle + step / 2), true);
      pen.fill();
    } else if (range !== FREE) points.push([range / 100 * Math.cos(angle), range / 100 * Math.sin(angle)]);
  });
  dots(points, at, colours.stop, 4);
}
function draw() {
  const width = canvas.clientWidth, height = canvas.clientHeight, ratio = window.devicePixelRatio || 1;
  if (canvas.width !== width * ratio || canvas.height !== height * ratio) {
    canvas.width = width * ratio;
    canvas.height = height * ratio;
  }
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.fillStyle = colours.card;
  pen.fillRect(0, 0, width, height);
  if (!robot) return;
  const at = pose(), marks = robot.markers || {};
  if (view.follow) [view.x, view.y] = at;
  grid();
  if (worldFrame() === "map") building(); // without localisation nobody knows where the map lies
  scan(at);
  line(shape.path, worldFromOdom(), colours.path, 2);
  for (const [name, colour] of [["slow_zone", colours.warn], ["stop_zone", colours.stop]])
    if (marks[name]) line(marks[name].points, at, colour, 1, true, [4, 4]);
  if (marks.keep_out) dots(marks.keep_out.points, fromFrame(marks.keep_out.frame), colours.stop, 3);
  if (marks.remembered) dots(marks.remembered.points, fromFrame(marks.remembered.frame), colours.blue, 4);
  if (marks.goals) line(marks.goals.points, fromFrame(marks.goals.frame), colours.go, 1, false, [6, 4]);
  if (marks.goal) ring(apply(fromFrame(marks.goal.frame), marks.goal.points[0]), colours.go);
  line(shape.footprint, at, colours.ink, 2, true);
  line([[0, 0], [0.25, 0]], at, colours.ink, 3);
  line(robot.arc, at, colours.blue, 3);
  if (view.cursor) ring(view.cursor, colours.blue);
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
}

function zoom(factor) {
  view.scale = Math.min(400, Math.max(2, view.scale * factor));
  draw();
}
function setFollow(on) {
  view.follow = on;
  $("follow").setAttribute("aria-pressed", String(on));
  draw();
}
$("closer").addEventListener("click", () => zoom(1.4));
$("farther").addEventListener("click", () => zoom(1 / 1.4));
$("follow").addEventListener("click", () => setFollow(!view.follow));
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2);
}, { passive: false });

const fingers = new Map();
let moved = 0;
canvas.addEventListener("pointerdown", (event) => {
  fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
  canvas.setPointerCapture(event.pointerId);
  moved = 0;
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
    moved += 10;
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
canvas.addEventListener("pointercancel", (event) => fingers.delete(event.pointerId));
canvas.addEventListener("pointerup", (event) => {
  fingers.delete(event.pointerId);
  if (!view.placing || moved > 8 || !robot) return;
  view.cursor = toWorld(event.offsetX, event.offsetY);
  ask(view.cursor);
});
canvas.addEventListener("keydown", (event) => {
  const steps = { ArrowUp: [0, 1], ArrowDown: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
  if (event.key === "+" || event.key === "=") zoom(1.4);
  else if (event.key === "-") zoom(1 / 1.4);
  else if (event.key === "f") setFollow(!view.follow);
  else if (steps[event.key] && robot && robot.control) {
    const at = view.cursor || pose(), [dx, dy] = steps[event.key];
    view.cursor = [at[0] + 0.25 * dx, at[1] + 0.25 * dy];
    draw();
  } else if (event.key === "Enter" && view.cursor) ask(view.cursor);
  else return;
  event.preventDefault();
});

// ---- Texts, figures, charts

const RELEASE = "The stop of this page is pressed. A goal with the token releases it.";
const WORDS = { navigating: "go", recovering: "warn", reached: "go", idle: "", stopped: "bad", silent: "bad" };
function texts() {
  const late = performance.now() - heardAt > STALE_MS;
  const live = robot.live && !late;
  $("robot").textContent = robot.robot;
  document.title = `${robot.word} – ${robot.robot}`;
  $("word").textContent = late ? "no connection" : robot.word;
  $("word").className = `pill ${late ? "bad" : WORDS[robot.word] || ""}`;
  $("sentence").textContent = late ? "This page has lost the dashboard. What it shows is old." : robot.sentence;
  $("clears").textContent = late ? "Check the network. The page goes on by itself; its stop may not arrive." : robot.stopped ? RELEASE : robot.clears;
  $("codes").textContent = late ? "" : robot.why.map((row) => row.code).join(", ");
  const battery = Number(robot.figures.battery);
  $("battery").textContent = Number.isFinite(battery) ? `battery ${Math.round(100 * battery)} %` : "";
  $("link").textContent = robot.order ? `last order: ${robot.order}` : "";
  $("control").hidden = !robot.control;
  $("readonly").hidden = robot.control;
  for (const name of ["place", "pause", "resume", "cancel"]) $(name).disabled = !live;
  $("stop").textContent = robot.stopped ? "STOPPED" : "STOP";
  $("stop").classList.toggle("latched", robot.stopped);
}
function figures() {
  const f = robot.figures, drive = robot.drive || {};
  const distance = Number(drive.distance_m);
  const rows = [
    ["speed", f.v_mps === undefined ? "" : `${Number(f.v_mps).toFixed(2)} m/s`],
    ["to the goal", drive.distance_m ? `${distance.toFixed(2)} m` : ""],
    ["goals left", drive.goals_left],
    ["recoveries", drive.recoveries],
    ["missed ticks", f.missed_slots],
    ["late decisions", f.deadline_misses],
    ["decision p50 / p99", f.decision_p50_ms ? `${f.decision_p50_ms} / ${f.decision_p99_ms} ms` : ""],
    ["lateness p99", f.lateness_p99_ms ? `${f.lateness_p99_ms} ms` : ""],
    ...Object.entries(robot.ages_ms).map(([name, age]) => [`${name} age`, `${Math.round(Number(age))} ms`]),
  ];
  fill($("numbers"), rows.filter((row) => row[1] !== "" && row[1] !== undefined), (row) => {
    const pair = el("div");
    pair.append(el("dt", row[0]), el("dd", row[1]));
    return [pair];
  });
  const oldest = Math.max(0, ...Object.values(robot.ages_ms).map(Number));
  const values = [f.decision_p99_ms, f.lateness_max_ms, robot.live ? oldest : NaN, 100 * f.battery].map(Number);
  Object.keys(history).forEach((name, i) => {
    history[name].push(values[i]);
    if (history[name].length > HISTORY) history[name].shift();
    chart(name, history[name]);
  });
  fill($("rows"), robot.parts, (part) => {
    const row = el("tr"), level = el("td", part.level);
    level.className = { ok: "go", warning: "warn", error: "bad" }[part.level] || "";
    row.append(el("td", part.name), level, el("td", part.message));
    return [row];
  });
}
function el(kind, text = "") {
  const made = document.createElement(kind);
  made.textContent = text;
  return made;
}
const fill = (place, rows, make) => place.replaceChildren(...rows.flatMap(make));

function chart(name, values) {
  const finite = values.filter(Number.isFinite), id = `chart ${name}`;
  let box = document.getElementById(id);
  if (!finite.length) return;
  if (!box) {
    box = el("figure");
    box.id = id;
    box.style.margin = "0";
    box.append(el("figcaption"), el("canvas"));
    box.firstChild.className = "quiet";
    $("charts").append(box);
  }
  const most = Math.max(1, ...finite), paper = box.lastChild, ink = paper.getContext("2d");
  box.firstChild.textContent = `${name}: ${finite[finite.length - 1].toFixed(1)} (most ${most.toFixed(1)})`;
  paper.width = paper.clientWidth;
  paper.height = paper.clientHeight;
  ink.strokeStyle = colours.blue;
  ink.lineWidth = 1.5;
  ink.beginPath();
  values.forEach((value, i) => {
    if (!Number.isFinite(value)) return;
    ink.lineTo(i / (HISTORY - 1) * paper.width, paper.height - 2 - value / most * (paper.height - 4));
  });
  ink.stroke();
}

// ---- Recordings

$("files").addEventListener("toggle", () => { if ($("files").open) list(); });
async function list() {
  try {
    const found = await (await fetch("api/recordings")).json();
    $("counted").textContent = found.problem || `${found.count} recordings, the newest ${found.files.length} are shown`;
    fill($("list"), found.files, (file) => {
      const item = el("li"), load = el("a", file.name), report = el("a", "report");
      load.href = `api/recordings/${encodeURIComponent(file.name)}`;
      report.href = `${load.href}/report`;
      report.target = "_blank";
      report.rel = "noopener";
      const about = ` ${(file.bytes / 1e6).toFixed(1)} MB, ${new Date(1000 * file.modified_s).toLocaleString()} `;
      const keep = el("button", file.kept ? "kept" : "Keep");
      keep.disabled = file.kept;
      keep.hidden = !robot || !robot.control;
      keep.addEventListener("click", async () => {
        await order(`recordings/${encodeURIComponent(file.name)}/keep`);
        list();
      });
      item.append(load, el("span", about), report, el("span", " "), keep);
      return [item];
    });
  } catch (error) {
    $("counted").textContent = `the list cannot be read: ${error.message}`;
  }
}

// ---- The stream. The browser opens it again by itself, also after a restart of the dashboard

let beat = 0;
const live = new EventSource("api/live");
live.addEventListener("robot", (event) => {
  robot = JSON.parse(event.data);
  heardAt = performance.now();
  texts();
  draw();
  if (beat++ % 5 === 0) figures();
});
live.addEventListener("shape", (event) => {
  shape = JSON.parse(event.data);
  if (!shape.map || shape.map.number === planNumber) return;
  planNumber = shape.map.number;
  plan.src = `api/map.png?${planNumber}`;
});
setInterval(() => { if (robot) texts(); }, 1000);
window.addEventListener("resize", draw);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); draw(); });
readColours();
draw();
