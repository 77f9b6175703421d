"use strict";
// Orders: the stop, and what moves the robot or changes its map: chosen, confirmed, sent with the token.

// The token follows # in the address, which no browser sends to a server.
// Nothing here may throw: the stop below must work without a token and without storage.
let token = "";
try {
  if (location.hash.startsWith("#token=")) {
    token = location.hash.slice(7);
    token = decodeURIComponent(token);
    sessionStorage.setItem("token", token);
    window.history.replaceState(null, "", location.pathname);
  }
  token = token || sessionStorage.getItem("token") || "";
} catch (error) {
  console.warn(error);
}
const STOP_MS = 2000; // then the person is told, and the stop is sent again

function say(text, bad = false) {
  $("said").textContent = text;
  $("said").className = bad ? "bad" : "";
}
async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (robot) headers["X-Stops"] = String(robot.presses); // an order sent before a stop that its page had not shown is refused
  const stops = path === "api/stop"; // only a stop outlives the page that sends it, and has a time
  const signal = stops && AbortSignal.timeout ? AbortSignal.timeout(STOP_MS) : undefined;
  const reply = await fetch(path, { method: "POST", headers, body: JSON.stringify(body || {}), keepalive: stops, signal });
  const said = await reply.json().catch(() => ({}));
  if (!reply.ok) throw new Error(said.error || `${path}: ${reply.status}`);
  return said;
}
async function order(name, body) {
  say(`${name} …`);
  try {
    say((await post(`api/${name}`, body)).said);
    return true;
  } catch (error) {
    say(error.message, true);
    return false;
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
      if (robot) robot.presses = told.presses;
      outdated();
      say(told.live ? "Stopped. A new goal releases it." : "Stop is pressed, but no runtime was found.", !told.live);
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
  if (!$("ask").hidden) close();
  else stop();
});

// ---- What a tap on the plane means

const HINTS = {
  "": "Tap “Set a goal”, then a place on the plane.",
  goal: "Tap the place to drive to. Drag to choose the heading there.",
  pose: "Press where the robot stands, and drag the way it faces.",
  forbid: "Paint the ground that the robot must not enter.",
  allow: "Paint over forbidden ground that the robot may enter again.",
};
function setMode(mode) {
  view.mode = view.mode === mode ? "" : mode;
  view.cursor = null;
  for (const button of document.querySelectorAll("[data-mode]"))
    button.setAttribute("aria-pressed", String(button.dataset.mode === view.mode));
  $("hint").textContent = HINTS[view.mode];
  if (onMap() && !located()) showMap();
  draw();
}
for (const button of document.querySelectorAll("[data-mode]"))
  button.addEventListener("click", () => {
    setMode(button.dataset.mode);
    if (view.mode) $("view").scrollIntoView({ block: "nearest" });
  });
$("hint").textContent = HINTS[""];

// ---- Confirmations: a question, and what a yes does

let agreed = null;
const degrees = (rad) => Math.round(rad * 180 / Math.PI);
const where = (at) => `x ${at[0].toFixed(2)} m, y ${at[1].toFixed(2)} m`;
const QUESTIONS = {
  goal: (at) => ({
    text: `Drive to ${where(at)} (${worldFrame()})${at[2] === null ? "" : `, heading ${degrees(at[2])}°`}?`, yes: "Drive there",
    send: () => order("goal", { x: at[0], y: at[1], frame: worldFrame(), yaw_deg: at[2] === null ? null : degrees(at[2]) }),
    moves: true,
  }),
  pose: (at) => ({
    text: `The robot stands at ${where(at)}, heading ${degrees(at[2])}°?`, yes: "It stands there",
    send: () => order("pose", { x: at[0], y: at[1], frame: "map", yaw_deg: degrees(at[2]) }),
  }),
  place: (name) => ({ text: `Drive to ${name}?`, yes: "Drive there", send: () => order("goal", { place: name }), moves: true }),
  route: (places) => ({
    text: `Drive to ${places.join(", ")}${$("loop").checked ? ", again and again" : ""}?`, yes: "Start the route",
    send: () => order("route", { places, loop: $("loop").checked }), moves: true,
  }),
  keep_out: (list) => ({
    text: `Save ${list.length} strokes to the keep-out mask? The robot applies them after its next start.`,
    yes: "Save", send: async () => { if (await order("keep_out", { strokes: list })) { strokes = []; painted(); } },
  }),
};
function ask(kind, about) {
  if (kind === "pose" && about[2] === null) {
    const at = pose();
    if (!at) return say("Drag the way the robot faces.", true);
    about = [about[0], about[1], at[2]];
  }
  agreed = { ...QUESTIONS[kind](about), presses: robot.presses };
  if (kind === "goal" || kind === "pose") view.cursor = about;
  $("question").textContent = agreed.text + (agreed.moves && robot.stopped ? " This releases the stop." : "");
  $("yes").textContent = agreed.yes;
  $("ask").hidden = false;
  $("yes").focus();
  draw();
}
// A yes to a question that was asked before a stop must not release that stop.
function outdated() {
  if (!agreed || agreed.presses === robot.presses) return;
  close();
  say("STOP was pressed while the page asked. Choose again what to do.", true);
}
function close() {
  agreed = view.cursor = null;
  $("ask").hidden = true;
  $("plane").focus({ preventScroll: true });
  draw();
}
$("yes").addEventListener("click", () => {
  const { send } = agreed;
  if (!paints() && view.mode) setMode(view.mode);
  close();
  send();
});
$("no").addEventListener("click", close);

// ---- Places and routes

let stops = [];
function placeRows() {
  const found = Object.keys(shape.places || {});
  stops = stops.filter((name) => found.includes(name));
  $("noplaces").hidden = found.length > 0;
  fill($("placelist"), found, (name) => {
    const item = el("li"), label = el("span", name), go = el("button", "Drive"), add = el("button", "Add to route");
    label.className = "grow";
    go.setAttribute("aria-label", `Drive to ${name}`);
    add.setAttribute("aria-label", `Add ${name} to the route`);
    go.addEventListener("click", () => ask("place", name));
    add.addEventListener("click", () => { stops.push(name); stopRow(); });
    item.append(label, ...(robot && robot.control ? [go, add] : []));
    return [item];
  });
  stopRow();
}
function stopRow() {
  $("stops").textContent = stops.length ? `Route: ${stops.join(" → ")}` : "Add places to make a route.";
  $("start").disabled = $("clear").disabled = !stops.length;
}
$("start").addEventListener("click", () => ask("route", [...stops]));
$("clear").addEventListener("click", () => { stops = []; stopRow(); });
$("placename").addEventListener("keydown", (event) => { if (event.key === "Enter") $("name").click(); });
$("name").addEventListener("click", async () => {
  const name = $("placename").value.trim();
  if (!name) return say("Type a name first.", true);
  if (await order("place", { name })) $("placename").value = "";
});

// ---- The keep-out brush

function painted() {
  $("undo").disabled = $("save").disabled = !strokes.length;
  draw();
}
$("undo").addEventListener("click", () => { strokes.pop(); painted(); });
$("save").addEventListener("click", () => ask("keep_out", strokes));
