"use strict";

// ---------------------------------------------------------------- tables: a click on a head sorts by its column

const value = (text) => {
  const found = text.replace(/[,\s]/g, "").replace("−", "-").match(/^[-+]?\d*\.?\d+/);
  return found ? Number(found[0]) : NaN;
};

function sort(table, column) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  const rows = [...body.rows], text = (row) => row.cells[column].textContent.trim();
  const numbers = rows.filter((row) => !isNaN(value(text(row)))).length * 2 > rows.filter((row) => text(row)).length;
  const down = heads[column].getAttribute("aria-sort") === "ascending";
  const compare = (a, b) => {
    const [x, y] = numbers ? [value(text(a)), value(text(b))] : [text(a), text(b)];
    if (numbers && (isNaN(x) || isNaN(y))) return isNaN(x) - isNaN(y);  // what is no number stays below
    return (numbers ? x - y : x.localeCompare(y)) * (down ? -1 : 1);
  };
  body.append(...rows.sort(compare));
  heads.forEach((head) => head.removeAttribute("aria-sort"));
  heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
}

for (const table of document.querySelectorAll("table")) {
  if (!table.tHead || table.tBodies[0].rows.length < 2) continue;
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(table, column));
    head.append(button);
  });
}

// ---------------------------------------------------------------- charts: which job ran where

const HEAT = ["#ffeda0", "#feb24c", "#fc7f3a", "#e3211c", "#8f0a26"], GREY = "#9ca3af";
const WAITS = [60, 3600, 6 * 3600, 86400], WAIT_NAMES = ["up to 1 min", "1 h", "6 h", "1 day", "longer"];
const SIZES = [1, 8, 64, 512], SIZE_NAMES = ["1 processor", "up to 8", "64", "512", "more"];
const SHADES = ["#c6dbef", "#6baed6", "#3182bd", "#6a51a3", "#3f007d"];
const rank = (limits, x) => limits.filter((limit) => x > limit).length;
const STEPS = [60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400];
const LEFT = 52, BELOW = 24;

function duration(s) {
  return s < 120 ? `${s} s` : s < 7200 ? `${(s / 60).toFixed(1)} min` : s < 172800 ? `${(s / 3600).toFixed(1)} h` : `${(s / 86400).toFixed(1)} days`;
}

function chart(figure) {
  const data = JSON.parse(figure.querySelector("script").textContent), jobs = data.jobs, [place, low, high] = data.boxes;
  const origin = data.origin ? Date.parse(data.origin.replace(" ", "T") + "Z") : NaN;
  const colours = {
    wait: (j) => HEAT[rank(WAITS, jobs.start[j] - jobs.submit[j])],
    user: (j) => data.colours[jobs.user[j]] || GREY,
    size: (j) => SHADES[rank(SIZES, jobs.size[j])],
  };
  const legends = {
    wait: WAIT_NAMES.map((name, i) => [HEAT[i], name]),
    user: [...data.users.slice(0, data.colours.length).map((name, i) => [data.colours[i], name]), ...(data.users.length > data.colours.length ? [[GREY, "others"]] : [])],
    size: SIZE_NAMES.map((name, i) => [SHADES[i], name]),
  };
  const make = (name, parent, set = {}) => parent.appendChild(Object.assign(document.createElement(name), set));
  const bar = make("div", figure, { className: "bar" }), label = make("label", bar, { textContent: "Colour " });
  const select = make("select", label);
  for (const [key, name] of [["wait", "by wait"], ["user", "by user"], ["size", "by processors"]]) make("option", select, { value: key, textContent: name });
  const canvas = make("canvas", figure, { tabIndex: 0 });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", figure.querySelector("svg").getAttribute("aria-label") + ", and the days around it. Arrows move, plus and minus zoom, 0 shows the day.");
  const legend = make("p", figure, { className: "legend" }), line = make("p", figure, { className: "job" });
  line.setAttribute("aria-live", "polite");
  const whole = () => ({ from: data.day[0], to: data.day[1], bottom: 0, top: data.processors });
  let view = whole(), under = -1, scale = {};

  const moment = (t) => isNaN(origin) ? `day ${Math.floor(t / 86400)}, ${new Date((t % 86400) * 1000).toISOString().slice(11, 16)}` : new Date(origin + t * 1000).toISOString().slice(0, 16).replace("T", " ");
  const say = (j) => `Job ${jobs.number[j]} of user ${data.users[jobs.user[j]]}: ${jobs.size[j].toLocaleString("en")} processor${jobs.size[j] === 1 ? "" : "s"}, submitted ${moment(jobs.submit[j])}, waited ${duration(jobs.start[j] - jobs.submit[j])}, ran ${duration(jobs.end[j] - jobs.start[j])} of ${duration(jobs.walltime[j])} requested.`;

  function draw() {
    const width = figure.clientWidth, height = Math.max(260, Math.min(420, width * 0.45)), dots = devicePixelRatio || 1;
    Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    [canvas.width, canvas.height] = [width * dots, height * dots];
    const c = canvas.getContext("2d"), w = width - LEFT - 8, h = height - BELOW - 6;
    c.scale(dots, dots);
    scale = { w, h, x: (t) => LEFT + (t - view.from) / (view.to - view.from) * w, y: (p) => 6 + h - (p - view.bottom) / (view.top - view.bottom) * h };
    const ink = getComputedStyle(figure).color, paint = colours[select.value];
    c.font = "11px system-ui, sans-serif";
    c.save();
    c.beginPath();
    c.rect(LEFT, 6, w, h);
    c.clip();
    for (let b = 0; b < place.length; b++) {
      const j = place[b];
      if (jobs.end[j] <= view.from || jobs.start[j] >= view.to || high[b] <= view.bottom || low[b] >= view.top) continue;
      const x = scale.x(jobs.start[j]), y = scale.y(high[b]), wide = scale.x(jobs.end[j]) - x, tall = scale.y(low[b]) - y;
      c.fillStyle = paint(j);
      c.fillRect(x, y, Math.max(wide - (wide > 3 ? 0.5 : 0), 0.5), Math.max(tall - (tall > 3 ? 0.5 : 0), 0.5));
      if (j === under) { c.strokeStyle = ink; c.lineWidth = 1.5; c.strokeRect(x, y, wide, tall); }
    }
    c.restore();
    c.strokeStyle = GREY;
    c.strokeRect(LEFT, 6, w, h);
    c.fillStyle = ink;
    const step = STEPS.find((s) => (view.to - view.from) / s * 58 < w) || 2 * 86400;
    c.textAlign = "center";
    for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) {
      c.fillText(step < 86400 ? moment(t).slice(-5) : moment(t).slice(isNaN(origin) ? 0 : 5, isNaN(origin) ? -7 : 10), scale.x(t), height - 6);
      c.fillRect(scale.x(t), 6 + h, 1, 4);
    }
    const unit = 10 ** Math.floor(Math.log10(Math.max(view.top - view.bottom, 1))), each = (view.top - view.bottom) / unit < 3 ? unit / 2 : unit;
    c.textAlign = "right";
    for (let p = Math.ceil(view.bottom / each) * each; p <= view.top; p += each) c.fillText(p.toLocaleString("en"), LEFT - 6, scale.y(p) + 4);
    legend.replaceChildren(...legends[select.value].map(([colour, name]) => {
      const entry = document.createElement("span");
      make("i", entry, { className: "dot" }).style.background = colour;
      entry.append(name);
      return entry;
    }));
  }

  function set(next) {
    const time = Math.min(Math.max(next.to - next.from, 60), data.around[1] - data.around[0]);
    const rows = Math.min(Math.max(next.top - next.bottom, 1), data.processors);
    const from = Math.min(Math.max(next.from, data.around[0]), data.around[1] - time), bottom = Math.min(Math.max(next.bottom, 0), data.processors - rows);
    view = { from, to: from + time, bottom, top: bottom + rows };
    draw();
  }

  function zoom(by, at, rows) {  // at: [0, 1] of the view, in time and in processors
    const [a, b] = [view.to - view.from, view.top - view.bottom], tall = rows ? b * by : b, wide = rows ? a : a * by;
    const from = view.from + (a - wide) * at[0], bottom = view.bottom + (b - tall) * at[1];
    set({ from, to: from + wide, bottom, top: bottom + tall });
  }

  const spot = (e) => {
    const box = canvas.getBoundingClientRect();
    return [(e.clientX - box.left - LEFT) / scale.w, 1 - (e.clientY - box.top - 6) / scale.h];
  };

  function look(e) {
    const [x, y] = spot(e), t = view.from + x * (view.to - view.from), p = view.bottom + y * (view.top - view.bottom);
    const b = place.findLastIndex((j, i) => jobs.start[j] <= t && t < jobs.end[j] && low[i] <= p && p < high[i]);
    const j = b < 0 ? -1 : place[b];
    if (j === under) return;
    under = j;
    line.textContent = j < 0 ? hint : say(j);
    draw();
  }

  const hint = "Point at a job. Drag to move; the buttons, or the wheel after a click, zoom (with Shift: processors).";
  const move = (x, y) => set({ from: view.from + x, to: view.to + x, bottom: view.bottom + y, top: view.top + y });
  const acts = [["Zoom out", () => zoom(2, [0.5, 0.5])], ["Zoom in", () => zoom(0.5, [0.5, 0.5])], ["The day", () => set(whole())], ["Days around it", () => set({ ...whole(), from: data.around[0], to: data.around[1] })]];
  for (const [text, act] of acts) make("button", bar, { type: "button", textContent: text }).addEventListener("click", act);
  let held = null;
  canvas.addEventListener("pointerdown", (e) => { held = [e.clientX, e.clientY, view]; canvas.setPointerCapture(e.pointerId); look(e); });
  canvas.addEventListener("pointerup", () => { held = null; });
  canvas.addEventListener("pointercancel", () => { held = null; });
  canvas.addEventListener("pointermove", (e) => {
    if (!held) return look(e);
    const [x, y, v] = held, right = (x - e.clientX) / scale.w * (v.to - v.from), up = (e.clientY - y) / scale.h * (v.top - v.bottom);
    set({ from: v.from + right, to: v.to + right, bottom: v.bottom + up, top: v.top + up });
  });
  canvas.addEventListener("wheel", (e) => {
    if (document.activeElement !== canvas) return;
    e.preventDefault();
    zoom(e.deltaY + e.deltaX > 0 ? 1.25 : 0.8, spot(e), e.shiftKey);
  }, { passive: false });
  canvas.addEventListener("keydown", (e) => {
    const wide = (view.to - view.from) / 4, tall = (view.top - view.bottom) / 4;
    const keys = { ArrowLeft: () => move(-wide, 0), ArrowRight: () => move(wide, 0), ArrowUp: () => move(0, tall), ArrowDown: () => move(0, -tall), "+": acts[1][1], "-": acts[0][1], 0: acts[2][1] };
    if (!keys[e.key] || e.ctrlKey || e.metaKey) return;
    e.preventDefault();
    keys[e.key]();
  });
  select.addEventListener("change", draw);
  addEventListener("resize", draw);
  figure.classList.add("drawn");
  line.textContent = hint;
  draw();
}

document.querySelectorAll("figure.chart").forEach(chart);
document.querySelectorAll("details").forEach((x) => x.addEventListener("toggle", () => dispatchEvent(new Event("resize"))));  // a closed one is 0 wide

// ---------------------------------------------------------------- print: everything is open

addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((x) => { x.open = true; }));
