"use strict";
// The page of `onboard dashboard`: one stream in; texts, figures, charts, recordings, reasons.

const STALE_MS = 2500;
const HISTORY = 240;
let heardAt = 0;
const history = { "decision p99 [ms]": [], "lateness max [ms]": [], "oldest input [ms]": [], "battery [%]": [] };

// ---- Texts, figures, charts

const WORDS = { navigating: "go", recovering: "warn", reached: "go", idle: "", stopped: "bad", silent: "bad" };
const plainly = (text) => text.replaceAll("`", ""); // names of keys and commands are marked so
const begun = (text) => plainly(text.replace(/^[a-z]/, (letter) => letter.toUpperCase())); // a topic or key stays as it is
function texts() {
  const late = performance.now() - heardAt > STALE_MS;
  const live = robot.live && !late;
  $("robot").textContent = robot.robot;
  document.title = `${robot.word} – ${robot.robot}`;
  $("word").textContent = late ? "no connection" : robot.word;
  $("word").className = `pill ${late ? "bad" : WORDS[robot.word] || ""}`;
  const [first, ...others] = live ? robot.why : [];
  const [text, tone] = late ? ["No connection", "bad"] : headline();
  $("headline").textContent = text;
  $("headline").className = tone;
  $("sentence").textContent = late ? "This page has lost the dashboard. What it shows is old." : begun(first ? first.sentence : robot.sentence === robot.word ? "" : robot.sentence);
  $("clears").textContent = late ? "Check the network. The page reconnects by itself. Until then its stop may not reach the robot." : `${robot.stopped && live ? "" : plainly(first ? first.clears : robot.clears)} ${robot.stopped ? `STOP was pressed${robot.stopped_by && ` at ${robot.stopped_by}`}. A goal with the token releases it.` : ""}`.trim();
  fill($("more"), others, (row) => [el("li", begun(`${row.sentence}. ${row.clears === (first && first.clears) ? "" : row.clears}`))]);
  $("codes").textContent = late ? "" : robot.why.map((row) => row.code).join(", ");
  const battery = Number(robot.figures.battery);
  $("battery").textContent = Number.isFinite(battery) ? `battery ${Math.round(100 * battery)} %` : "";
  $("link").textContent = robot.order ? `last order: ${robot.order}` : "";
  const orders = robot.control && token !== "";
  $("control").hidden = !orders;
  $("readonly").hidden = robot.control;
  $("notoken").hidden = !robot.control || orders;
  for (const one of document.querySelectorAll(".ordered")) one.hidden = !orders;
  $("mapping").hidden = !orders || !shape.map;
  for (const name of ["place", "pause", "resume", "cancel", "name"]) $(name).disabled = !live;
  $("setpose").disabled = !live || robot.takes_no_pose !== "";
  $("nopose").textContent = live ? plainly(robot.takes_no_pose) : "";
  if (robot.takes_no_pose && view.mode === "pose") setMode("pose");
  const { runs, places, at, lap, said } = robot.route;
  $("route").hidden = !runs && !said;
  $("route").textContent = runs ? `On a route, lap ${lap}: ${places.map((one, i) => (i === at ? `[${one}]` : one)).join(" → ")}` : said;
  $("stop").textContent = robot.stopped ? "STOPPED" : "STOP";
  $("stop").classList.toggle("latched", robot.stopped);
}
// Poses of the last second, in the odometry frame: whether the wheels move, whatever is commanded.
let track = [];
function motion() {
  if (track.length < 2) return [0, 0];
  const [x, y, yaw] = track[0].pose, [x2, y2, yaw2] = track[track.length - 1].pose;
  return [Math.hypot(x2 - x, y2 - y), Math.abs(Math.atan2(Math.sin(yaw2 - yaw), Math.cos(yaw2 - yaw)))];
}
// Does it move? With its tone.
function headline() {
  const [way, turn] = motion(), far = Number(robot.drive.distance_m).toFixed(1);
  if (!robot.live) return ["No runtime", "bad"];
  if (robot.stopped && way < 0.02 && turn < 0.05) return ["Stopped", "bad"];
  if (robot.word === "reached") return ["At its goal", "go"];
  if (robot.word === "idle") return ["Waits for a goal", ""];
  if (robot.word === "stopped") return ["Stopped", "bad"];
  if (way < 0.02 && turn < 0.05) return [`Stands, ${far} m to go`, "warn"];
  return [`${robot.word === "recovering" ? "Frees itself" : way >= 0.02 ? "Drives" : "Turns"}, ${far} m to go`, "go"];
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
    ["decision p50 / p99", f.decision_p50_ms ? `${Math.round(f.decision_p50_ms)} / ${Math.round(f.decision_p99_ms)} ms` : ""],
    ["lateness p99", f.lateness_p99_ms ? `${Math.round(f.lateness_p99_ms)} ms` : ""],
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
    row.append(el("td", part.name), level, el("td", plainly(part.message)));
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
  const most = Math.max(...finite), paper = box.lastChild, ink = paper.getContext("2d"), ratio = window.devicePixelRatio || 1;
  box.firstChild.textContent = `${name}: ${finite[finite.length - 1].toFixed(1)} (most ${most.toFixed(1)})`;
  const wide = paper.clientWidth, high = paper.clientHeight;
  paper.width = wide * ratio;
  paper.height = high * ratio;
  ink.setTransform(ratio, 0, 0, ratio, 0, 0);
  ink.strokeStyle = colours.line;
  ink.strokeRect(0, high - 0.5, wide, 0);
  ink.strokeStyle = colours.blue;
  ink.lineWidth = 1.5;
  ink.beginPath();
  values.forEach((value, i) => { // the newest at the right
    if (Number.isFinite(value))
      ink.lineTo((i + HISTORY - values.length) / (HISTORY - 1) * wide, high - 2 - value / Math.max(1, most) * (high - 4));
  });
  ink.stroke();
}

// ---- Recordings

$("files").addEventListener("toggle", () => { if ($("files").open) list(); });
async function list() {
  try {
    const found = await (await fetch("api/recordings")).json();
    const some = found.count === 1 ? "1 recording" : `${found.count} recordings`;
    $("counted").textContent = found.problem || (!found.count ? "No recording yet." : some + (found.count > found.files.length ? `, the newest ${found.files.length} are shown` : ""));
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

// ---- The table of reasons

$("reasons").addEventListener("toggle", async () => {
  if (!$("reasons").open || $("table").children.length) return;
  try {
    const found = await (await fetch("api/reasons")).json();
    fill($("table"), found.reasons, (row) => {
      const line = el("tr"), about = el("td", plainly(row.sentence));
      about.append(el("br"), el("span", plainly(row.clears)));
      about.lastChild.className = "quiet";
      line.append(el("td", row.code), about);
      return [line];
    });
  } catch (error) {
    say(`the reasons cannot be read: ${error.message}`, true);
  }
});

// ---- The stream. The browser opens it again by itself, also after a restart of the dashboard

let beat = 0;
const live = new EventSource("api/live");
live.addEventListener("robot", (event) => {
  robot = JSON.parse(event.data);
  outdated();
  heardAt = performance.now();
  if (robot.odom_from_base) track.push({ at: heardAt, pose: robot.odom_from_base });
  track = track.filter((one) => one.at > heardAt - 1000);
  texts();
  draw();
  if (beat++ % 5 === 0) figures();
});
let placesWere = "";
live.addEventListener("shape", (event) => {
  shape = JSON.parse(event.data);
  building.follow(shape.map);
  forbidden.follow(shape.keep_out);
  $("problems").textContent = shape.problems.join(" ");
  $("effect").textContent = shape.keep_out && shape.keep_out.effect ? `The saved keep-out mask is not in force: ${shape.keep_out.effect}.` : "";
  const places = JSON.stringify([shape.places, robot && robot.control]);
  if (places !== placesWere) placeRows();
  placesWere = places;
});
setInterval(() => { if (robot) texts(); }, 1000);
window.addEventListener("resize", draw);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); draw(); });
readColours();
draw();
