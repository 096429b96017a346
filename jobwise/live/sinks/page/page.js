// The page of a running cluster: asks the JSON API after each event. All text goes in as text, never as HTML.
"use strict";

const $ = (id) => document.getElementById(id);
const NEVER = 1e8;
const FIRST = 25, ALL = 10000, AGAIN = 30000;
let version = -1, open = null, now = null, limit = FIRST, lost = false;

function span(s) {
  if (s === null || s === undefined) return "";
  if (s >= NEVER) return "never";
  if (s < 1) return "now";
  if (s < 60) return `${s.toFixed(0)} s`;
  if (s < 5400) return `${(s / 60).toFixed(0)} min`;
  return s < 172800 ? `${(s / 3600).toFixed(1)} h` : `${(s / 86400).toFixed(1)} d`;
}
const count = (n) => n.toLocaleString("en");
const percent = (x) => x === null ? "" : `${(100 * x).toFixed(0)} %`;
const clock = (t) => new Date(1000 * t).toISOString().slice(0, 19).replace("T", " ");

function element(tag, text, more = {}) {
  const e = document.createElement(tag);
  if (text instanceof Node) e.append(text); else e.textContent = text;
  for (const [key, value] of Object.entries(more)) e.setAttribute(key, value);
  return e;
}
function row(table, cells, more = {}) {
  const tr = element("tr", "", more);
  const heads = table.tHead.rows[0].cells;
  cells.forEach((cell, k) => tr.append(element("td", cell, {"data-label": heads[k].textContent})));
  return tr;
}
function definitions(id, pairs) {
  $(id).replaceChildren(...pairs.filter(([, v]) => v !== "").map(([k, v]) => {
    const div = element("div", "");
    div.append(element("dt", k), element("dd", v));
    return div;
  }));
}
function list(id, lines) { $(id).replaceChildren(...lines.map((x) => element("li", x))); }

async function ask(path, options) {
  const answer = await fetch(path, options);
  const body = await answer.json().catch(() => ({error: `no answer that can be read (${answer.status})`}));
  if (!answer.ok) throw new Error(body.error || answer.statusText);
  return body;
}

function showNow(s) {
  now = s;
  $("cluster").textContent = `${s.cluster}: ${count(s.waiting)} wait, ${count(s.running)} run`;
  document.title = `${s.cluster} · jobwise`;
  $("problem").textContent = s.problem; $("problem").hidden = !s.problem;
  health();
  definitions("numbers", [
    ["waiting", count(s.waiting)], ["may not start yet", count(s.held)], ["running", count(s.running)],
    ["CPUs in use", `${count(s.used)} of ${count(s.cpus)}`], ["policy", s.policy], ["a cycle takes", `${s.seconds.toFixed(1)} s`],
  ]);
  $("bar").firstElementChild.style.width = `${100 * Math.min(s.used / Math.max(s.cpus, 1), 1)}%`;
  $("bar").setAttribute("aria-label", `${s.used} of ${s.cpus} CPUs in use`);
  $("under").textContent = s.under === "slurm" ? "As Slurm by itself would start them." : `As ${s.under} would start them.`;
  $("of-policy").textContent = s.policy;
  list("next", s.starts_next.length ? s.starts_next.map((x) => `job ${x.job} of ${x.user}: ${count(x.cpus)} CPUs for ${span(x.limit)}; ${x.why}`) : ["no job"]);
  $("users").tBodies[0].replaceChildren(...s.users.map((u) => {
    const rises = u.rises === null ? "" : `${u.rises > 0 ? "+" : ""}${u.rises.toFixed(1)}`;
    const tr = row($("users"), [u.user, count(u.jobs), count(u.cpus), span(u.start), rises]);
    tr.lastChild.className = u.rises > 0 ? "good" : u.rises < 0 ? "bad" : "";
    return tr;
  }));
  const score = s.score && s.score.predictions ? s.score : null;
  $("scored").hidden = !score;
  if (score) definitions("score", [
    ["predictions of jobs that have started", count(score.predictions)], ["median error", span(score.error)],
    ["where Slurm planned a start", span(score.error_planned)], ["Slurm's own plans", span(score.slurm_error)],
    ["within 80 %", percent(score.cover80)], ["within 90 %", percent(score.cover90)],
  ]);
  $("steered").hidden = !s.steering;
  if (s.steering) {
    const kind = s.steering.span ? `within a span of ${count(s.steering.span)} points` : "which alone decides the order";
    $("steering").textContent = `By ${s.policy}, ${kind}; the last cycle ${s.steering.dry ? "would have changed" : "changed"} ${count(s.steering.changed)} jobs.`;
  }
  $("stop").hidden = !(s.steering && s.stoppable);
}
function health() {
  if (!now || lost) return;
  const age = Date.now() / 1000 - now.time;
  $("health").textContent = (now.answers ? "" : "Slurm does not answer; ") + `seen ${clock(now.time)} UTC, ${age < 2 ? "now" : span(age) + " ago"}` + (now.slurm.backfill_depth === undefined ? "" : `; Slurm's last backfill looked at ${now.slurm.backfill_depth} jobs`) + (now.viewer === null ? "" : `; only jobs of ${now.viewer} are shown`);
  $("health").className = now.answers ? "" : "bad";
}

function told(x) {
  const parts = [`${x.why}; ${count(x.ahead)} start before it`];
  if (x.frees.length) parts.push(`jobs that end before: ${x.frees.join(", ")}`);
  parts.push(`90 %: ${span(x.start_90[0])} to ${span(x.start_90[1])}; within 1 h ${percent(x.within_1h)}, 24 h ${percent(x.within_24h)}; ends in ${span(x.end)}`);
  return parts.join(". ") + ".";
}
function showJobs(answer) {
  const table = $("jobs"), rows = [];
  for (const x of answer.jobs) {
    const button = element("button", x.tasks > 1 ? `${x.job} (${count(x.tasks)} tasks)` : String(x.job), {type: "button", "aria-expanded": String(open === x.job)});
    button.addEventListener("click", () => { open = open === x.job ? null : x.job; showJobs(answer); });
    const policy = x.starts_now ? "starts it now" : x.rank === null ? "" : `rank ${x.rank}`;
    rows.push(row(table, [button, x.user, x.name, count(x.cpus), span(x.limit), span(x.waited), span(x.start), `${span(x.start_80[0])} to ${span(x.start_80[1])}`, percent(x.within_4h), span(x.slurm), policy]));
    if (open === x.job) {
      const cell = element("td", told(x), {colspan: 11, class: "more"}), more = element("p", "Asking what would start it sooner …");
      cell.append(more);
      const tr = document.createElement("tr");
      tr.append(cell);
      rows.push(tr);
      ask(`api/jobs/${x.job}/sooner`).then((o) => {
        more.textContent = o.sooner.length ? "Sooner: " + o.sooner.map((c) => `${c.change}: starts in ${span(c.start)} instead of ${span(c.start_now)}, ends in ${span(c.end)} (${percent(c.probability)} likely sooner)`).join("; ") : "Nothing that was tried (a shorter limit, fewer nodes, another partition or QOS) is likely to start it much sooner.";
      }).catch((e) => { more.textContent = e.message; });
    }
  }
  table.tBodies[0].replaceChildren(...rows);
  $("count").textContent = answer.count > answer.jobs.length ? `the first ${count(answer.jobs.length)} of ${count(answer.count)}` : `${count(answer.count)} jobs`;
  $("all").hidden = answer.count <= answer.jobs.length;
  list("held", answer.cannot_start.map((x) => `job ${x.job} of ${x.user} (${x.name}): ${x.why}`));
}
function showAudit(answer) {
  const table = $("audit");
  table.tBodies[0].replaceChildren(...answer.lines.map((x) => row(table, [
    clock(x.time), x.what, x.job === undefined ? "" : String(x.job), x.old === undefined || x.old === null ? "" : String(x.old), x.new === undefined ? "" : String(x.new),
    x.why || x.problem || x.complaint || x.policy || "",
  ])));
}

function query() {
  const who = $("who").value.trim();
  return `?limit=${limit}` + (who === "" ? "" : /^\d+$/.test(who) ? `&job=${who}` : `&user=${encodeURIComponent(who)}`);
}
async function refresh() {
  try {
    showNow(await ask("api/now"));
    showJobs(await ask("api/jobs" + query()));
    if (now.steering) showAudit(await ask("api/audit?limit=50"));
  } catch (e) { $("problem").textContent = e.message; $("problem").hidden = false; }
}

$("find").addEventListener("submit", (e) => { e.preventDefault(); open = null; limit = FIRST; refresh(); });
$("all").addEventListener("click", () => { limit = ALL; refresh(); });
$("stop").addEventListener("submit", async (e) => {
  e.preventDefault();
  try {
    await ask("api/stop", {method: "POST", headers: {Authorization: `Bearer ${$("token").value}`}});
    $("stopped").textContent = "All site factors go back at the end of this cycle.";
  } catch (error) { $("stopped").textContent = error.message; }
  $("token").value = "";
});
function connect() {
  const events = new EventSource("api/events");
  events.onmessage = (e) => { const v = JSON.parse(e.data).version; lost = false; if (v !== version) { version = v; refresh(); } };
  events.onerror = () => {
    lost = true; version = -1;
    $("health").textContent = "the connection is lost; trying again"; $("health").className = "bad";
    if (events.readyState !== EventSource.CLOSED) return;
    lost = false;  // an answer that is no stream, as where too many read: the page is asked now and then
    refresh();
    setTimeout(connect, AGAIN);
  };
}
connect();
setInterval(health, 5000);
