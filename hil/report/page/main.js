// Puts the page together: what is looked at, playing, keys, tables.
const SPEEDS = [0.25, 1, 4, 16];

/** Return of every row how long ago the last decision came in force [s], and how many were missed since. */
function decisionsOf({ series, moments }) {
  const late = moments.filter(([, kind, weight]) => kind === "deadline" && weight === "bad").map(([t]) => rowAt(series.t, t));
  const missed = new Set(late), age = new Float64Array(series.t.length).fill(NaN), since = new Uint32Array(series.t.length);
  let last = NaN, count = 0;
  for (let row = 0; row < series.t.length; row++) {
    if (Number.isFinite(series.decision_ms[row])) { last = series.t[row]; count = 0; }
    if (missed.has(row)) count++;
    age[row] = series.t[row] - last; since[row] = count;
  }
  return { age, since };
}

function tellTick(run, row) {
  const { series } = run, { age, since } = run.decisions, reason = run.reasons.names[run.reasons.codes[row]];
  const pair = (v, w) => `${number(v, 2, "m/s")}, ${number(w, 2, "rad/s")}`;
  const said = {
    tick: series.slot[row].toLocaleString("en"),
    time: number(series.t[row], 3, "s"),
    state: run.states.names[run.states.codes[row]],
    command: reason[0],
    decision: (Number.isFinite(age[row]) ? `${number(age[row], 2, "s")} old` : "none yet") + (since[row] ? `, ${since[row]} missed since` : ""),
    wanted: pair(series.v_wanted[row], series.w_wanted[row]),
    sent: pair(series.v_sent[row], series.w_sent[row]),
    measured: pair(series.v_measured[row], series.w_measured[row]),
    pose: `${number(series.x[row], 2, "m")}, ${number(series.y[row], 2, "m")}, ${number(series.yaw[row] * 180 / Math.PI, 0, "°")}`,
    goal: number(series.goal_m[row], 2, "m"),
    nearest: number(series.nearest_m[row], 2, "m"),
  };
  for (const [name, value] of Object.entries(said)) byId(`now-${name}`).textContent = value;
  byId("now-command").dataset.kind = reason[1];
  byId("now-meaning").textContent = reason[2];
  byId("bar-time").textContent = number(series.t[row], 2, "s");
  byId("bar-state").textContent = said.state;
  byId("bar-reason").textContent = said.command;
  byId("bar-reason").dataset.kind = reason[1];
}

class Player {
  constructor(run) {
    this.run = run;
    this.speed = 1;
    this.playing = false;
    this.button = byId("play");
    this.slider = byId("slider");
    this.slider.max = String(run.ticks - 1);
    this.slider.addEventListener("input", () => focus.set(Number(this.slider.value), run.ticks));
    this.button.addEventListener("click", () => this.toggle());
    byId("speed").addEventListener("click", () => {
      this.speed = SPEEDS[(SPEEDS.indexOf(this.speed) + 1) % SPEEDS.length];
      byId("speed").textContent = `${this.speed}×`;
    });
    focus.onChange(() => { this.slider.value = String(focus.row); this.slider.setAttribute("aria-valuetext", number(run.series.t[focus.row], 2, "s")); });
  }

  toggle() {
    if (!this.playing && focus.row >= this.run.ticks - 1) focus.set(0, this.run.ticks);
    this.playing = !this.playing;
    this.button.textContent = this.playing ? "❚❚" : "►";
    this.button.setAttribute("aria-label", this.playing ? "pause" : "play");
    if (!this.playing) return;
    const { t } = this.run.series;
    let at = t[focus.row], before = performance.now(), shown = focus.row;
    const frame = (nowMs) => {
      if (!this.playing) return;
      if (focus.row !== shown) at = t[focus.row];
      at += this.speed * (nowMs - before) / 1000;
      before = nowMs;
      focus.set(lastNotAbove(t, at), this.run.ticks);
      shown = focus.row;
      if (shown >= this.run.ticks - 1) this.toggle(); else requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }
}

/** Go to a time, so that it can be seen what led to it. */
function goToTime(run, charts, t) {
  focus.set(rowAt(run.series.t, t), run.ticks);
  charts.lookAt(t);
}

/** Go to the next or the last moment that the list shows from what is looked at. */
function goToMoment(run, charts, direction) {
  const shown = [...document.querySelectorAll(".said tr:not([hidden]) [data-t]")].map((one) => rowAt(run.series.t, Number(one.dataset.t)));
  const found = direction > 0 ? shown.find((row) => row > focus.row) : shown.reverse().find((row) => row < focus.row);
  if (found !== undefined) goToTime(run, charts, run.series.t[found]);
}

/** The list of what happened shows all of it, the stops, or one kind. */
function listenToChoices() {
  const buttons = [...document.querySelectorAll("[data-only]")], rows = [...document.querySelectorAll(".said tr")];
  for (const button of buttons) button.addEventListener("click", () => {
    const { only } = button.dataset;
    for (const one of buttons) one.setAttribute("aria-pressed", String(one === button));
    for (const row of rows) row.hidden = !(only === "all" || (only === "stops" ? "stop" in row.dataset : row.dataset.kind === only));
  });
}

function listenToKeys(run, charts, player) {
  const by = (seconds) => focus.set(rowAt(run.series.t, run.series.t[focus.row] + seconds), run.ticks);
  const actions = {
    ArrowLeft: (event) => (event.shiftKey ? by(-1) : focus.set(focus.row - 1, run.ticks)),
    ArrowRight: (event) => (event.shiftKey ? by(1) : focus.set(focus.row + 1, run.ticks)),
    Home: () => focus.set(0, run.ticks),
    End: () => focus.set(run.ticks - 1, run.ticks),
    " ": () => player.toggle(),
    n: () => goToMoment(run, charts, 1),
    p: () => goToMoment(run, charts, -1),
    "+": () => charts.zoomBy(0.5),
    "=": () => charts.zoomBy(0.5),
    "-": () => charts.zoomBy(2),
    0: () => charts.zoomTo(0, run.end_s),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === " " && event.target.closest("button, summary, a")) return;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action(event);
  });
}

function listenToTheme(repaint) {
  const dark = matchMedia("(prefers-color-scheme: dark)"), root = document.documentElement;
  const changed = () => { palette.known.clear(); repaint(); };
  dark.addEventListener("change", changed);
  byId("theme").addEventListener("click", () => {
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : dark.matches;
    root.dataset.theme = isDark ? "light" : "dark";
    changed();
  });
}

/** Times in tables and sentences are buttons: they go there. */
function listenToTimes(run, charts) {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-t]");
    if (!button) return;
    goToTime(run, charts, Number(button.dataset.t));
    if (button.closest(".away")) byId("cockpit").scrollIntoView({ behavior: "smooth", block: "start" });
  });
}

/** Unpack the numbers and show them. What is shown stands in `theRun`, `theMap`, `theCharts`, for a look by hand too. */
async function begin() {
  if (typeof DecompressionStream === "undefined") {
    byId("old").hidden = false;
    return;
  }
  const run = await unpackAll(JSON.parse(byId("run").textContent));
  run.series.t = Float64Array.from(run.series.t, (value) => value / 1e4);
  run.decisions = decisionsOf(run);
  const map = new MapView(run, byId("map")), polar = new PolarView(run, byId("polar"));
  const charts = new Charts(run, byId("charts")), player = new Player(run);
  focus.onChange(() => tellTick(run, focus.row));
  listenToKeys(run, charts, player);
  listenToTheme(() => { map.draw(); polar.draw(); charts.repaint(); });
  listenToTimes(run, charts);
  listenToChoices();
  byId("whole").addEventListener("click", () => charts.zoomTo(0, run.end_s));
  stretch.onChange(() => { byId("whole").hidden = stretch.to - stretch.from >= run.end_s - 1e-6; });
  const asked = /^#t=([\d.]+)$/.exec(location.hash);
  const from = asked ? Number(asked[1]) : run.first !== null ? run.first : run.from_s;
  focus.set(rowAt(run.series.t, from), run.ticks);
  tellTick(run, focus.row);
  if (asked || run.first !== null) charts.lookAt(from);
  Object.assign(window, { theRun: run, theMap: map, theCharts: charts });
  document.body.dataset.ready = "true";
}

begin();
