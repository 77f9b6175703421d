// The numbers of the page, unpacked once; one row a tick that is drawn.
const KINDS = { f4: Float32Array, u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, i4: Int32Array };
const NOTHING_SEEN = 65535, BLIND = 65534;

/** Return the typed array of `hil/report/page_data.py`: base64 of zlib of bytes that are sorted by their place in the number. */
async function unpack({ kind, data }) {
  const bytes = Uint8Array.from(atob(data), (one) => one.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const sorted = new Uint8Array(await new Response(stream).arrayBuffer());
  const Kind = KINDS[kind], width = Kind.BYTES_PER_ELEMENT, count = sorted.length / width;
  const plain = new Uint8Array(sorted.length);
  for (let place = 0; place < width; place++) {
    for (let row = 0; row < count; row++) plain[row * width + place] = sorted[place * count + row];
  }
  return new Kind(plain.buffer);
}

/** Return `run` with every packed array in it unpacked. */
async function unpackAll(value) {
  if (value === null || typeof value !== "object") return value;
  if (typeof value.kind === "string" && typeof value.data === "string") return unpack(value);
  if (Array.isArray(value)) return value.length > 0 && typeof value[0] === "object" ? Promise.all(value.map(unpackAll)) : value;
  const entries = await Promise.all(Object.entries(value).map(async ([name, one]) => [name, await unpackAll(one)]));
  return Object.fromEntries(entries);
}

/** Return the place of the last number that is not above `wanted`, 0 when all are. */
function lastNotAbove(sorted, wanted) {
  let low = 0, high = sorted.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (sorted[middle] <= wanted) low = middle; else high = middle - 1;
  }
  return low;
}

/** Return the row whose tick is nearest in time. */
function rowAt(time, wanted) {
  const row = lastNotAbove(time, wanted);
  return row + 1 < time.length && time[row + 1] - wanted < wanted - time[row] ? row + 1 : row;
}

/** Return a number as a person reads it; minus zero is zero, what is not there a dash. */
function number(value, digits, unit) {
  if (!Number.isFinite(value)) return "–";
  const text = value.toFixed(digits);
  return `${Number(text) === 0 ? text.replace("-", "") : text}${unit ? " " + unit : ""}`;
}

const byId = (id) => document.getElementById(id);

function element(name, attributes = {}, text) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/** Colours are the style sheet's; they are asked for again when the theme changes. */
const palette = {
  known: new Map(),
  get(name) {
    if (!this.known.has(name)) this.known.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
    return this.known.get(name);
  },
};

/** What the page looks at: one row. Whoever shows it listens. */
const focus = {
  row: 0,
  listeners: [],
  onChange(listener) { this.listeners.push(listener); },
  set(row, rows) {
    const wanted = Math.max(0, Math.min(rows - 1, Math.round(row)));
    if (wanted === this.row) return;
    this.row = wanted;
    for (const listener of this.listeners) listener();
  },
};

/** Which stretch of time the charts show; the map shows the same. */
const stretch = {
  from: -Infinity,
  to: Infinity,
  listeners: [],
  onChange(listener) { this.listeners.push(listener); },
  has(t) { return t >= this.from && t <= this.to; },
  set(from, to) {
    if (from === this.from && to === this.to) return;
    Object.assign(this, { from, to });
    for (const listener of this.listeners) listener();
  },
};

/** Return a canvas's context with its size in CSS pixels, cleared; the drawing buffer follows the screen. */
function cleared(canvas) {
  const width = canvas.clientWidth, height = canvas.clientHeight, ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}
