// What the page shows: a look each second from the daemon, and its history.
// Principles: nothing is computed here that the daemon knows better; what comes from the network is put into the page
// as text, never as markup; a connection that breaks is made again. Non-goals: old browsers.
"use strict";

const $ = (id) => document.getElementById(id);
const token = () => $("token").value.trim();
const heads = () => (token() ? { Authorization: `Bearer ${token()}` } : {});
let device = null, span = "live", last = null, wanted = 0;

// ------------------------------------------------------------------ figures

const digits = (v) => {
  const size = Math.abs(v);
  return v.toFixed(size === 0 ? 0 : size < 0.1 ? 3 : size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
};
const scaled = (v, units) => {
  let k = 0;
  while (Math.abs(v) >= 999.5 && k + 1 < units.length) { v /= 1000; k += 1; }
  return [digits(v), units[k]];
};
const rate = (kbit) => scaled(kbit, ["kbit/s", "Mbit/s", "Gbit/s"]);
const words = (pair) => pair.join(" ");
const ms = (v) => (v == null ? "–" : `${digits(v)} ms`);
const ofRate = (text) => {
  const m = /^(\d+)(bit|kbit|mbit|gbit)$/.exec(text ?? "");
  return m ? Number(m[1]) * { bit: 0.001, kbit: 1, mbit: 1e3, gbit: 1e6 }[m[2]] : null;
};
const ago = (s) => (s < 120 ? `${s.toFixed(0)} s` : s < 7200 ? `${(s / 60).toFixed(0)} min` : `${(s / 3600).toFixed(0)} h`) + " ago";
const median = (list) => { const s = list.filter((v) => v != null).sort((a, b) => a - b); return s.length ? s[s.length >> 1] : null; };

const make = (tag, text, kind) => {
  const node = document.createElement(tag);
  if (text != null) node.textContent = text;
  if (kind) node.className = kind;
  return node;
};
const big = (node, pair) => { node.replaceChildren(pair[0] + " ", make("small", pair[1])); };

// ------------------------------------------------------------------ now

function felt(model) {
  if (model?.base_ms == null) return null;
  const q = (d) => (model[d].queue_ms ?? 0) + (model[d].own_queue_ms ?? 0);
  return model.base_ms + q("down") + q("up");
}

function showWay(tile, way) {
  const part = (name) => tile.querySelector(`[data-of=${name}]`);
  const passing = way?.passing_kbit ?? 0, capacity = ofRate(way?.capacity);
  big(part("passing"), rate(passing));
  tile.querySelector("i").style.width = capacity ? `${Math.min(100, (100 * passing) / capacity)}%` : "0";
  const shaped = ofRate(way?.shaped);
  part("of").textContent = capacity
    ? `of ${words(rate(capacity))}` + (shaped ? `, shaped to ${words(rate(shaped))}` : "")
    : "what the line carries is not known yet";
}

function showDelay(model, flows) {
  const lan = median(flows.map((f) => f.lan_rtt_ms));
  const beyond = median(flows.map((f) => f.rtt_ms));
  const both = (key) => (model?.down[key] ?? 0) + (model?.up[key] ?? 0);
  const own = both("own_queue_ms"), line = both("queue_ms"), idle = model?.base_ms ?? 0;
  const parts = [
    ["LAN", "lan", lan ?? 0], ["own queue", "own", own], ["line, its queue", "line", line],
    ["line, idle", "idle", idle], ["beyond", "beyond", Math.max(0, (beyond ?? 0) - own - line - idle)],
  ];
  const all = parts.reduce((sum, p) => sum + p[2], 0) || 1;
  $("delay").replaceChildren(...parts.map(([name, key, v]) => {
    const bar = make("i", null, `of-${key}`);
    bar.style.width = `${(100 * v) / all}%`;
    bar.title = `${name}: ${ms(v)}`;
    return bar;
  }));
  $("delay-legend").replaceChildren(...parts.map(([name, key, v]) => {
    const entry = make("li");
    entry.append(make("b", null, `of-${key}`), `${name} ${ms(v)}`);
    return entry;
  }));
}

// The tier, and two buttons that change it where somebody has given the token.
function tierOf(f) {
  const td = make("td", String(f.tier).replace("-", " "), "tier");
  if (!token() || f.ended || f.number == null) return td;
  for (const [sign, raise] of [["▲", true], ["▼", false]]) {
    const b = make("button", sign, "move");
    b.setAttribute("aria-label", `${raise ? "raise" : "lower"} ${f.remote}`);
    b.addEventListener("click", () => change("api/flow", { device, flow: f.number, raise }));
    td.append(b);
  }
  return td;
}

/* Where a flow's queue stands, as `evenkeel flows` names it. */
const QUEUES = { "lan": "LAN", "lan-upload": "LAN, its upload", "line": "line", "beyond": "beyond" };

function showFlows(flows) {
  if (typeof flows === "string") {
    $("flows").tBodies[0].replaceChildren();
    $("flows-more").textContent = flows;
    return;
  }
  const cell = (text, kind) => make("td", text, kind);
  const kbit = (v) => (v ? words(rate(v)) : "–");
  $("flows").tBodies[0].replaceChildren(...flows.slice(0, 30).map((f) => {
    const row = make("tr", null, f.ended ? "ended" : "");
    const local = cell(f.host ?? f.local);
    local.title = f.local;
    row.append(local, cell(f.remote), cell(kbit(f.down_kbit), "n"), cell(kbit(f.up_kbit), "n"),
      cell(f.rtt_ms == null ? "–" : ms(f.rtt_ms), "n"), tierOf(f), cell(f.cgroup ?? "–"),
      cell((f.ended ? "ended; " : "") + (f.queue ? `waits (${QUEUES[f.queue]}); ` : "") + f.why, "why"));
    return row;
  }));
  const more = flows.length - 30;
  $("flows-more").textContent = flows.length === 0 ? "no flow has moved within ten seconds" : more > 0 ? `and ${more} more` : "";
}

function showChanges(model) {
  const list = (model?.changes ?? []).slice().reverse();
  $("changes").replaceChildren(...list.map((c) => {
    const entry = make("li");
    entry.append(make("time", ago(model.time_s - c.at_s)), c.text);
    return entry;
  }));
}

function pick(status) {
  const names = status.map((s) => s.device);
  const shown = [...$("device").options].map((o) => o.value);
  if (names.join() !== shown.join()) {
    $("device").replaceChildren(...names.map((n) => new Option(n, n)));
  }
  $("device").parentNode.hidden = names.length < 2;
  if (!names.includes(device)) { device = names[0] ?? null; history(); }
  $("device").value = device ?? "";
  return status.find((s) => s.device === device);
}

function show(look) {
  last = look;
  const state = $("state");
  if (look.trouble) {
    state.className = "bad";
    state.textContent = look.trouble;
    return;
  }
  const line = pick(look.status ?? []);
  if (!line) {
    state.className = "";
    state.textContent = "no device is shaped by evenkeel";
    return;
  }
  const model = line.model, broken = line.health?.broken;
  state.className = broken ? "bad" : "";
  state.textContent = broken
    ? `${device}: not working: ${broken}`
    : model?.gone_since_s != null
      ? `${device} has gone; it is waited for`
      : `${device}: ${line.backend}, mode ${model?.mode ?? line.mode}, probing ${model?.near ?? "nothing that answers"}`;
  const flows = look.flows?.[device] ?? [];
  showWay($("tile-down"), model?.down);
  showWay($("tile-up"), model?.up);
  const now = felt(model);
  $("tile-felt").querySelector("[data-of=felt]").textContent = ms(now);
  $("tile-felt").querySelector("[data-of=base]").textContent = model?.base_ms == null ? "nothing answers probes" : `${ms(model.base_ms)} on the idle line`;
  showDelay(model, Array.isArray(flows) ? flows : []);
  showFlows(flows);
  showChanges(model);
  for (const b of document.querySelectorAll("[data-mode]")) b.setAttribute("aria-pressed", String(b.dataset.mode === (model?.mode ?? line.mode)));
  remember(model, now);
}

// ------------------------------------------------------------------ charts

const SECONDS = 300;
const live = { at: [], down: [], up: [], downCap: [], upCap: [], felt: [], base: [] };

function remember(model, now) {
  const mbit = (kbit) => (kbit == null ? null : kbit / 1000);
  const row = { at: Date.now() / 1000, down: mbit(model?.down.passing_kbit), up: mbit(model?.up.passing_kbit),
    downCap: mbit(ofRate(model?.down.capacity)), upCap: mbit(ofRate(model?.up.capacity)), felt: now, base: model?.base_ms };
  for (const key of Object.keys(live)) {
    live[key].push(row[key] ?? null);
    if (live[key].length > SECONDS) live[key].shift();
  }
  if (span === "live") draw(live);
}

let charts = [];
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function build() {
  for (const c of charts) c.destroy();
  const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
  const value = (unit) => (_, v) => (v == null ? "–" : `${digits(v)} ${unit}`);
  const plot = (box, height, unit, series) => new uPlot({
    width: box.clientWidth, height,
    scales: { y: { range: (_, low, high) => [0, Math.max(high || 1, unit === "ms" ? 5 : 0.1) * 1.08] } },
    axes: [axis, { ...axis, size: 52, values: (_, all) => all.map((v) => (v === 0 ? "0" : digits(v))) }],
    legend: { live: true }, cursor: { drag: { x: false, y: false } },
    series: [{}, ...series.map(([label, ink, more]) => ({ label, stroke: colour(ink), width: 2, value: value(unit), points: { show: (u) => u.data[0].length < 3 }, ...more }))],
  }, series.map(() => []).concat([[]]), box);
  const dash = { dash: [5, 4], width: 1 };
  charts = [
    plot($("chart-rates"), 200, "Mbit/s", [["down", "--down", { fill: colour("--down") + "22" }], ["up", "--up", { fill: colour("--up") + "22" }], ["line down", "--down", dash], ["line up", "--up", dash]]),
    plot($("chart-felt"), 120, "ms", [["felt", "--felt", { fill: colour("--felt") + "22" }], ["idle", "--good", dash]]),
  ];
}

let drawn = live;

function draw(of) {
  drawn = of;
  charts[0].setData([of.at, of.down, of.up, of.downCap, of.upCap]);
  charts[1].setData([of.at, of.felt, of.base]);
  // A span is drawn whole, however little of it is known.
  const now = Date.now() / 1000, long = span === "live" ? Math.min(SECONDS, Math.max(30, now - (live.at[0] ?? now))) : Number(span);
  for (const c of charts) c.setScale("x", { min: now - long, max: now });
}

async function ask(path, options) {
  const response = await fetch(path, { ...options, headers: { ...heads(), ...(options?.headers ?? {}) } });
  const body = await response.json();
  if (!response.ok) throw new Error(body.error ?? response.statusText);
  return body;
}

async function history() {
  if (span === "live" || !device) { $("sentence").textContent = ""; draw(live); return; }
  const turn = (wanted += 1), to = Math.floor(Date.now() / 1000) + 60;
  try {
    const all = await ask(`api/history?device=${encodeURIComponent(device)}&from=${to - Number(span)}&to=${to}`);
    if (turn !== wanted) return;
    const read = all[0], of = { at: [], down: [], up: [], downCap: [], upCap: [], felt: [], base: [] };
    const known = (v, scale) => (v ? v / scale : null);
    for (const m of read?.minutes ?? []) {
      of.at.push(m.minute * 60);
      of.down.push(m.down.most_kbit / 1000); of.up.push(m.up.most_kbit / 1000);
      of.downCap.push(known(m.down.capacity_kbit, 1000)); of.upCap.push(known(m.up.capacity_kbit, 1000));
      of.felt.push(known(m.felt_cms, 100)); of.base.push(known(m.base_cms, 100));
    }
    $("sentence").textContent = [read?.sentence, read?.week?.sentence, ...(read?.trouble ?? [])].filter(Boolean).join(". ");
    draw(of);
  } catch (e) { $("sentence").textContent = e.message; }
}

// ------------------------------------------------------------------ connection

async function listen() {
  for (;;) {
    try {
      const response = await fetch("api/events", { headers: heads() });
      if (!response.ok) throw new Error((await response.json()).error ?? response.statusText);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        text += value;
        let end;
        while ((end = text.indexOf("\n\n")) >= 0) {
          const data = text.slice(0, end).split("\n").filter((l) => l.startsWith("data:")).map((l) => l.slice(5)).join("\n");
          text = text.slice(end + 2);
          if (data) show(JSON.parse(data));
        }
      }
      throw new Error("the connection has ended; trying again");
    } catch (e) {
      $("state").className = "bad";
      $("state").textContent = e.message;
    }
    await new Promise((go) => setTimeout(go, 3000));
  }
}

async function change(path, body) {
  try {
    $("said").textContent = await ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  } catch (e) { $("said").textContent = e.message; }
}

// ------------------------------------------------------------------ measuring

let benching = null;

// What it moves is said before: the line is full in both directions for most of the time.
function costs() {
  const model = last?.status?.find((s) => s.device === device)?.model;
  const test = $("bench-test").value, ways = test === "rrul" ? ["down", "up"] : [test === "download" ? "down" : "up"];
  const kbit = ways.reduce((sum, d) => sum + (ofRate(model?.[d].capacity) ?? 0), 0);
  const moved = kbit ? `, which here are some ${words(scaled((kbit * 1000 * 12) / 8, ["B", "kB", "MB", "GB"]))}` : "";
  return `Fills the line for 12 of 20 s${moved}. Nothing else is sent.`;
}

function showBench(b) {
  const runs = b.running_s != null;
  $("measure").hidden = !b.available;
  $("bench-go").textContent = runs ? "stop" : `measure for ${b.takes_s} s`;
  $("bench-said").textContent = runs
    ? `measuring against ${b.to}: ${b.running_s.toFixed(0)} of ${b.takes_s} s`
    : b.trouble ?? costs();
  // The first line is a sentence.
  const [verdict, ...figures] = (b.result ?? "").split("\n");
  $("bench-verdict").textContent = verdict;
  $("bench-result").textContent = figures.join("\n").trim();
  $("bench-result").hidden = b.result == null;
  if (runs) setTimeout(bench, 1000);
  benching = runs;
}

async function bench() {
  try { showBench(await ask("api/bench")); } catch (e) { $("bench-said").textContent = e.message; }
}

async function askBench() {
  const path = benching ? "api/bench/stop" : "api/bench", body = benching ? {} : { to: $("bench-to").value.trim(), test: $("bench-test").value };
  try {
    showBench(await ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }));
  } catch (e) { $("bench-said").textContent = e.message; }
}

build();
const again = () => { build(); draw(drawn); };
addEventListener("resize", again);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
$("device").addEventListener("change", (e) => { device = e.target.value; for (const key of Object.keys(live)) live[key].length = 0; if (last) show(last); history(); });
for (const b of document.querySelectorAll("[data-span]")) b.addEventListener("click", () => {
  span = b.dataset.span;
  for (const other of document.querySelectorAll("[data-span]")) other.setAttribute("aria-pressed", String(other === b));
  history();
});
for (const b of document.querySelectorAll("[data-mode]")) b.addEventListener("click", () => change("api/set", { device, mode: b.dataset.mode }));
for (const b of document.querySelectorAll("[data-quiet]")) b.addEventListener("click", () => change("api/quiet", { device, seconds: Number(b.dataset.quiet) }));
const asked = new URLSearchParams(location.search).get("span");
if (asked) document.querySelector(`[data-span="${CSS.escape(asked)}"]`)?.click();
$("bench-go").addEventListener("click", askBench);
for (const id of ["bench-to", "bench-test"]) $(id).addEventListener("input", () => { if (!benching) $("bench-said").textContent = costs(); });
$("token").addEventListener("change", bench);
bench();
setInterval(history, 60_000);
listen();
