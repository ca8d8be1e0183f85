// Shows what the client says of itself.  The token stays in this browser: it is in the address behind "#", which no server sees.
"use strict";

const byId = (id) => document.getElementById(id);
const COLOURS = ["#0b8a7d", "#b5651d", "#4a6fb5", "#8a4f9e", "#6b8e23", "#b03a5b", "#7a7a2e", "#2f7f9e"];
const waiting = new Map();
let socket = null;
let number = 0;
let mayControl = true;
const names = new Map(); // of projects, by their addresses

// -- asking ---------------------------------------------------------------------------------------------

function ask(what, given = {}) {
  return new Promise((resolve, reject) => {
    if (!socket || socket.readyState !== WebSocket.OPEN) return reject(new Error("not connected"));
    waiting.set(++number, { resolve, reject });
    socket.send(JSON.stringify({ id: number, do: what, with: given }));
  });
}

function heard(event) {
  const answer = JSON.parse(event.data);
  const asked = waiting.get(answer.id);
  if (!asked) return;
  waiting.delete(answer.id);
  if (answer.ok) asked.resolve(answer.result);
  else asked.reject(new Error(answer.error));
}

function connect() {
  const token = decodeURIComponent(location.hash.slice(1));
  if (!token) return askForToken("Please give the client's token.");
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  let opened = false;
  socket = new WebSocket(`${scheme}//${location.host}/ws?token=${encodeURIComponent(token)}`);
  socket.onmessage = heard;
  socket.onopen = () => {
    opened = true;
    byId("login").hidden = true;
    document.querySelector("main").hidden = false;
    refresh().then(refreshSlowly); // the timeline wants the names of the projects
  };
  socket.onclose = () => {
    for (const asked of waiting.values()) asked.reject(new Error("the client is away"));
    waiting.clear();
    if (!opened && document.querySelector("main").hidden) askForToken("The client does not answer, or the token is not its.");
    else byId("summary").textContent = "The client is away; trying again …";
    setTimeout(connect, opened ? 2000 : 10000);
  };
}

function askForToken(words) {
  byId("summary").textContent = words;
  byId("login").hidden = false;
}

// -- showing --------------------------------------------------------------------------------------------

function make(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function length(seconds) {
  const s = Math.max(0, Math.round(seconds));
  const parts = [Math.floor(s / 86400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60];
  if (parts[0]) return `${parts[0]} d ${parts[1]} h`;
  if (parts[1]) return `${parts[1]} h ${parts[2]} min`;
  return parts[2] ? `${parts[2]} min` : `${s} s`;
}

const moment = (time) => new Date(time * 1000).toLocaleString([], { dateStyle: "short", timeStyle: "short" });
const size = (bytes) => (bytes < 1e6 ? `${(bytes / 1e3).toFixed(0)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);
const plain = (html) => new DOMParser().parseFromString(html, "text/html").body.textContent;

const several = (count, word) => `${count.toLocaleString()} ${word}${count === 1 ? "" : "s"}`;
const credit = (amount) => amount.toLocaleString([], { maximumFractionDigits: amount < 100 ? 1 : 0 });

function fill(id, rows, empty) {
  if (!empty) byId(id).closest("section").hidden = !rows.length;
  byId(id).replaceChildren(...(rows.length ? rows : [make("li", { className: "facts", textContent: empty })]));
}

function line(name, facts, ...more) {
  return make("div", { className: "line" }, make("span", { className: "name", textContent: name }),
    make("span", { className: "facts", textContent: facts }), ...more);
}

function showStatus(found) {
  byId("host").textContent = found.host_name || "This computer";
  const tasks = found.tasks;
  byId("summary").textContent = found.suspended.cpu ? `Computing is paused. ${found.because.join(" ")}` : tasks.running ? "Computing." : "Nothing to compute at the moment.";
  const figures = [[tasks.running, "running"], [tasks.waiting, "waiting"], [tasks.ready_to_report, "to be reported"],
    [`${found.cpus.allowed} of ${found.cpus.of_computer}`, "CPUs for tasks"]];
  byId("figures").replaceChildren(...figures.map(([figure, words]) => make("li", {}, make("b", { textContent: figure }), ` ${words}`)));
  byId("begin").hidden = found.projects > 0;
  const reasons = [...(found.because.length ? found.because : ["Everything is allowed."]), `Policy: ${found.policy}.`];
  fill("why", reasons.map((text) => make("li", { textContent: text })), "-");
  byId("controls").hidden = !mayControl;
}

function showTasks(rows) {
  const order = { running: 0 };
  rows.sort((a, b) => (order[a.state] ?? 1) - (order[b.state] ?? 1) || a.deadline - b.deadline);
  fill("tasks", rows.slice(0, 200).map((task) => {
    const late = !task.exit_status && task.deadline * 1000 < Date.now();
    const over = task.exit_status !== null;
    const facts = [task.state, ...(over ? [] : [`${(100 * task.fraction_done).toFixed(1)} %`]), `${length(task.elapsed)} run`,
      ...(over ? [] : [`${length(task.remaining)} left`]), `deadline ${moment(task.deadline)}`].join(", ");
    const more = late ? [make("span", { className: "bad", textContent: "late" })] : [];
    if (mayControl && !over) {
      const verb = task.suspended ? "resume" : "suspend";
      more.push(make("button", { type: "button", textContent: verb, onclick: () => act(verb, { what: task.project + task.name }),
        ariaLabel: `${verb} ${task.name}` }));
    }
    return make("li", {}, line(task.name, facts, ...more),
      make("div", { className: "facts", textContent: `${task.app} · ${task.project_name || task.project}` }),
      ...(over ? [] : [make("progress", { max: 1, value: task.fraction_done, ariaLabel: `${task.name}: done` })]));
  }), "No tasks: none has come yet, or all are done.");
}

function showProjects(rows) {
  for (const p of rows) names.set(p.url, p.name || p.url);
  fill("projects", rows.map((p) => make("li", {}, line(p.name || p.url,
    `credit ${credit(p.host_credit)}, average ${credit(p.host_average)} a day, estimated ${credit(p.estimated_credit)}`),
  make("div", { className: "facts", textContent:
    `${several(p.tasks, "task")} here, ${p.jobs_done} done, ${p.jobs_failed} failed, share ${p.share}`
    + (p.suspended ? ", suspended" : "") + (p.no_new_work ? ", no new tasks" : "") }))),
  "");
}

function showTransfers(rows) {
  fill("transfers", rows.map((t) => make("li", {}, line(t.file,
    `${t.direction}, ${size(t.bytes)}` + (t.size ? ` of ${size(t.size)}` : "") + (t.running ? "" : ", waiting")
    + (t.tries ? `, ${several(t.tries, "attempt")}` : "")))), "");
}

function showNotices(rows) {
  fill("notices", rows.slice(-50).reverse().map((n) => make("li", {}, line(n.title || n.project_name || "This client", moment(n.create_time)),
    make("div", { textContent: plain(n.description) }))), "");
}

function shape(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function showTimeline({ now, runs }) {
  byId("timeline").closest("section").hidden = !runs.length;
  if (!runs.length) return;
  const begin = Math.min(now - 600, ...runs.map((run) => run.begin));
  const end = Math.max(now + 3600, ...runs.map((run) => run.end));
  const lanes = 1 + Math.max(0, ...runs.map((run) => run.lane));
  const height = Math.max(8, Math.min(26, 320 / lanes));
  const width = 1000;
  const at = (time) => (width * (time - begin)) / (end - begin);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${lanes * height}`, preserveAspectRatio: "none", height: lanes * height });
  const projects = [...new Set(runs.map((run) => run.project))];
  for (const run of runs) {
    const bar = shape("rect", { x: at(run.begin), y: run.lane * height + 1, width: Math.max(1.5, at(run.end) - at(run.begin) - 0.7),
      height: height - 2, fill: run.late ? "#b3282d" : COLOURS[projects.indexOf(run.project) % COLOURS.length],
      opacity: run.planned ? 0.55 : 1 });
    const title = shape("title", {});
    const ends = run.planned ? (run.finishes ? "will end" : "will run until") : "ran until";
    title.textContent = `${run.job}: from ${moment(run.begin)}, ${ends} ${moment(run.end)}`
      + (run.deadline ? `; deadline ${moment(run.deadline)}` : "") + (run.late ? ", too late" : "");
    bar.append(title);
    svg.append(bar);
  }
  svg.append(shape("rect", { x: at(now) - 1, y: 0, width: 2, height: lanes * height, fill: "currentColor" }));
  byId("timeline").replaceChildren(svg);
  const hours = [1, 3, 6, 12, 24, 48, 168].find((step) => (end - begin) / 3600 / step <= (innerWidth < 600 ? 3 : 7)) || 744;
  const ticks = [];
  for (let time = new Date(begin * 1000).setMinutes(60, 0, 0) / 1000; time < end; time += 3600) {
    if (new Date(time * 1000).getHours() % Math.min(hours, 24) === 0 && time - (ticks.at(-1) ?? -Infinity) >= hours * 3500) ticks.push(time);
  }
  const words = hours < 24 ? { hour: "2-digit", minute: "2-digit" } : { day: "numeric", month: "short" };
  byId("hours").replaceChildren(...ticks.map((time) => {
    const made = make("span", { textContent: new Date(time * 1000).toLocaleString([], words) });
    made.style.left = `${(100 * (time - begin)) / (end - begin)}%`;
    return made;
  }));
  const late = runs.filter((run) => run.late).length;
  const keys = projects.map((project, i) => make("span", {}, swatch(COLOURS[i % COLOURS.length]), names.get(project) || project));
  if (late) keys.push(make("span", { className: "bad" }, swatch("#b3282d"), `${late} will be late`));
  byId("legend").replaceChildren(make("span", { textContent: "The line is now; pale: forecast" }), ...keys);
}

function swatch(colour) {
  const made = make("b");
  made.style.background = colour;
  return made;
}

// -- life -----------------------------------------------------------------------------------------------

async function show(what, shown, given) {
  shown(await ask(what, given));
}

async function refresh() {
  try {
    if (!document.hidden) {
      await show("status", showStatus);
      await show("tasks", showTasks);
      await show("projects", showProjects);
      await show("transfers", showTransfers);
    }
    setTimeout(refresh, 2000);
  } catch {
    // The connection is gone: a new one starts from scratch.
  }
}

async function refreshSlowly() {
  try {
    if (!document.hidden) {
      await show("timeline", showTimeline);
      await show("notices", showNotices);
    }
    setTimeout(refreshSlowly, 15000);
  } catch {
    // As above.
  }
}

async function act(what, given) {
  try {
    await ask(what, given);
  } catch (error) {
    if (/only allows reading/.test(error.message)) mayControl = false;
    byId("summary").textContent = error.message;
  }
}

byId("pause").onclick = () => act("mode", { which: "run", mode: "never", seconds: 3600 });
byId("resume").onclick = () => act("mode", { which: "run", mode: "auto" });
byId("login").onsubmit = (event) => {
  event.preventDefault();
  location.hash = encodeURIComponent(byId("token").value);
  location.reload();
};
connect();
