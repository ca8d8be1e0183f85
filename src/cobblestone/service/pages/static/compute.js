/* The page that computes: gets jobs from the project's API, has a thread compute each, keeps their checkpoints in the browser's
 * storage, sends what comes out. Nothing but the project's own server is ever asked.
 */
const page = document.getElementById("compute");
const say = Object.fromEntries([...page.querySelectorAll("[data-say]")].map((each) => [each.dataset.say, each.textContent]));
const part = (name) => page.querySelector(`[data-part="${name}"]`);
const API = `${page.dataset.base}api/v1/browsers`;
const OWNER = `browser:${page.dataset.owner}`, CHOICES = "compute:choices", DAY = "compute:day", LOCK = "cobblestone-compute";
const CHECKPOINT_SECONDS = Number(page.dataset.checkpointSeconds), ASK_AGAIN_MS = 30_000, LONGEST_WAIT_MS = 600_000;
const SPEAK_MS = 60_000; // a page that holds jobs and is silent for five minutes loses them
const SUSPENDED = 0, CHECKPOINT_WANTED = 1, INSTRUCTIONS_BOUND = 197;
const LOOK_MS = 1000, LONGEST_LOOK_MS = 120_000, INSTRUCTIONS_PER_SECOND = 1e9; // where none are counted: a nanosecond each
const PYODIDE_FILES = ["pyodide.asm.wasm", "pyodide-lock.json", "python_stdlib.zip"];
const later = (ms) => new Promise((done) => setTimeout(done, ms));

/** What is kept in the browser's storage, where it has some for us. */
const kept = new Map();
const stored = (key, otherwise) => {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? kept.get(key) ?? otherwise;
  } catch {
    return kept.get(key) ?? otherwise;
  }
};
const store = (key, value) => {
  kept.set(key, value);
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    part("storage").textContent = say.unkept;
  }
};

/** Jobs that this browser holds: {name, job, state?, result?}; in its database too, for the time after this tab. */
class Shelf {
  known = new Map();

  /** Read what an earlier tab has left. */
  async open() {
    try {
      const opening = indexedDB.open(`cobblestone:${page.dataset.base}`, 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore("jobs", {keyPath: "name"});
      this.database ??= await finished(opening);
      this.known = new Map((await this.act("readonly", (jobs) => jobs.getAll())).map((record) => [record.name, record]));
    } catch {
      part("storage").textContent = say.unkept;
    }
  }

  act(mode, call) {
    const acting = this.database.transaction("jobs", mode), request = call(acting.objectStore("jobs"));
    return new Promise((done, failed) => {
      acting.oncomplete = () => done(request.result);
      acting.onabort = () => failed(acting.error); // a full storage may show only here
    });
  }

  all() { return [...this.known.values()]; }

  /** Without room in the storage the tab goes on. */
  async keep(call) {
    try {
      await this.act("readwrite", call);
      part("storage").textContent = "";
    } catch {
      part("storage").textContent = say.unkept;
    }
  }

  add(job) {
    const record = {name: job.name, job};
    this.known.set(job.name, record);
    return this.keep((jobs) => jobs.put(record));
  }

  /** Change a job that is still held. */
  async change(name, changes) {
    const record = this.known.get(name);
    if (record) await this.keep((jobs) => jobs.put(Object.assign(record, changes)));
  }

  remove(name) {
    this.known.delete(name);
    return this.keep((jobs) => jobs.delete(name));
  }
}

function finished(request) {
  return new Promise((done, failed) => {
    request.onsuccess = () => done(request.result);
    request.onerror = () => failed(request.error);
  });
}

/** Say in words that the network failed, in which browsers see a mistake of types. */
const online = (asked) => asked.catch((error) => {
  throw error instanceof TypeError ? new Error(say.offline) : error;
});

/** The server refuses; `status` says why. */
class Refused extends Error {
  constructor(status, words, seconds) {
    super(words);
    Object.assign(this, {status, seconds});
  }
}

async function ask(method, path, body, token) {
  const headers = {"Content-Type": "application/json", ...(token ? {Authorization: `Bearer ${token}`} : {})};
  const answer = await online(fetch(API + path, {method, headers, body: body && JSON.stringify(body), cache: "no-store"}));
  const reply = await answer.json().catch(() => ({}));
  if (answer.ok) return reply;
  throw new Refused(answer.status, reply.error?.message ?? answer.statusText, Number(answer.headers.get("Retry-After") ?? 0));
}

/** One job in a thread of its own. */
class Task {
  constructor(compute, record) {
    Object.assign(this, {compute, record, job: record.job, state: record.state, fraction: 0, counted: 0, seconds: record.state?.seconds ?? 0});
    this.halt = new AbortController();
    this.orders = globalThis.crossOriginIsolated ? new Int32Array(new SharedArrayBuffer(8)) : null;
    this.row = part("task").content.firstElementChild.cloneNode(true);
    this.row.querySelector("[data-part=title]").textContent = record.job.title || record.job.app;
    part("tasks").append(this.row);
    this.show(say.loading);
  }

  show(words) {
    this.row.querySelector("[data-part=state]").textContent = words;
    const bar = this.row.querySelector("progress");
    bar.value = this.fraction;
    bar.setAttribute("aria-label", `${this.job.title}: ${(100 * this.fraction).toFixed(0)} %`);
  }

  async load() {
    const {module, files} = this.job, whole = [module, ...files].reduce((sum, {nbytes}) => sum + nbytes, 0);
    let arrived = 0;
    const bring = async ({url, nbytes}) => {
      const answer = await online(fetch(url, {signal: this.halt.signal}));
      if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
      const bytes = new Uint8Array(nbytes), reader = answer.body.getReader();
      for (let at = 0; ; ) {
        const {done, value} = await online(reader.read());
        if (done ? at < nbytes : at + value.length > nbytes) throw new Error(`${url}: not the ${nbytes} bytes that it has`);
        if (done) return bytes;
        bytes.set(value, at);
        at += value.length;
        arrived += value.length;
        this.show(`${say.loading} ${((100 * arrived) / whole).toFixed(0)} % / ${(whole / 1e6).toPrecision(2)} MB`);
      }
    };
    const [core, code, ...contents] = await Promise.all([this.loadPyodide(), ...[module, ...files].map(bring)]);
    this.content = {module: code, files: Object.fromEntries(files.map(({open_name: name}, i) => [name, contents[i]])), ...core};
  }

  /** Where Pyodide is and what it consists of, for a job that needs it. */
  async loadPyodide() {
    if (!this.job.pyodide) return {};
    const where = new URL(`${page.dataset.base}pyodide/${this.job.pyodide}/`, location.href).href;
    const bring = async (name) => {
      const answer = await online(fetch(where + name, {signal: this.halt.signal}));
      if (!answer.ok) throw new Error(`${where}${name}: ${answer.status}`);
      return [name, new Uint8Array(await online(answer.arrayBuffer()))];
    };
    return {where, core: Object.fromEntries(await Promise.all(PYODIDE_FILES.map(bring)))};
  }

  /** Compute to the end; the result, or null if the job was dropped. */
  async run() {
    if (this.record.result) return this.record.result;
    await this.load();
    if (this.halt.signal.aborted) return null;
    return new Promise((done, failed) => {
      this.end = done;
      this.fail = failed;
      if (this.compute.pausedFor) this.pause();
      else this.begin();
    });
  }

  begin() {
    this.worker = new Worker(this.job.pyodide ? page.dataset.pyodideWorker : page.dataset.worker, {type: "module"});
    this.worker.onmessage = ({data}) => this.hear(data);
    this.worker.onerror = () => this.fail(new Error(say.broken));
    this.worker.postMessage({job: this.job, resume: this.state, orders: this.orders, period: CHECKPOINT_SECONDS, ...this.content});
    this.looked = performance.now();
    if (this.job.pyodide) this.watch = setInterval(() => this.look(), LOOK_MS);
  }

  /** Measure the time of a program without an instruction count. */
  measure() {
    const now = performance.now();
    if (!this.compute.pausedFor) this.seconds += Math.min(now - this.looked, LONGEST_LOOK_MS) / 1000;
    this.looked = now;
  }

  /** End such a program at the job's bound. */
  look() {
    const bound = this.job.instructions_bound / INSTRUCTIONS_PER_SECOND;
    this.measure();
    if (this.worker && bound > 0 && this.seconds > bound)
      this.hear({kind: "done", status: INSTRUCTIONS_BOUND, outputs: [], instructions: "0",
        stderr: `cobblestone: the program ran for more than ${bound.toFixed(0)} s, the bound of the job\n`});
  }

  hear(message) {
    if (message.kind === "progress") {
      this.count(message.instructions);
      this.fraction = message.fraction;
      this.show(`${(100 * this.fraction).toFixed(1)} %`);
    } else if (message.kind === "checkpoint") {
      if (this.orders) Atomics.store(this.orders, CHECKPOINT_WANTED, 0);
      this.state = {...message.state, seconds: this.seconds};
      this.compute.shelf.change(this.job.name, {state: this.state});
    } else {
      this.count(message.instructions);
      if (this.job.pyodide) this.measure();
      this.stop();
      this.end(this.job.pyodide ? {...message, seconds: this.seconds} : message);
    }
  }

  /** Add what was computed since the last time to the day's. */
  count(instructions) {
    const now = Number(instructions), since = this.counted || Number(this.state?.instructions ?? 0);
    this.compute.add({instructions: Math.max(0, now - since)});
    this.counted = now;
  }

  /** Stand still: where pages share no memory with threads, the job goes back to its last checkpoint. */
  pause() {
    if (this.worker && this.orders) Atomics.store(this.orders, SUSPENDED, 1);
    else this.stop();
    this.show(say.paused);
  }

  resume() {
    if (!this.worker) {
      this.counted = 0;
      if (this.content) this.begin();
    } else if (this.orders) {
      Atomics.store(this.orders, SUSPENDED, 0);
      Atomics.notify(this.orders, SUSPENDED);
    }
    this.show(say.computing);
  }

  wantCheckpoint() {
    if (this.worker && this.orders) Atomics.store(this.orders, CHECKPOINT_WANTED, 1);
  }

  stop() {
    clearInterval(this.watch);
    this.worker?.terminate();
    this.worker = null;
  }

  drop() {
    this.halt.abort();
    this.stop();
    this.end?.(null);
  }
}

/** The whole of it: as many tasks as threads, until it is stopped. */
class Compute {
  constructor(shelf) {
    this.shelf = shelf;
    this.tasks = new Map();
    this.running = false;
    this.asking = false; // the loop below has not ended yet
    this.reasons = new Set(); // why it stands still
    this.today();
  }

  get pausedFor() { return [...this.reasons][0]; }
  get choices() { return {threads: 1, battery: true, hidden: false, ...stored(CHOICES, {})}; }

  /** Today's contribution of this browser; a new day begins at zero. */
  today() {
    const day = new Date().toISOString().slice(0, 10), known = stored(DAY, {});
    if (known.day !== day) store(DAY, {day, jobs: 0, instructions: 0});
    return stored(DAY, {day, jobs: 0, instructions: 0});
  }

  add(more) {
    const sums = this.today();
    for (const [name, amount] of Object.entries(more)) sums[name] += amount;
    store(DAY, sums);
    this.showDay(sums);
  }

  showDay(sums) {
    const number = new Intl.NumberFormat(document.documentElement.lang, {maximumSignificantDigits: 3, notation: "compact"});
    part("jobs").textContent = number.format(sums.jobs);
    part("instructions").textContent = number.format(sums.instructions);
  }

  async showCredit() {
    const {total_credit: credit, account} = await this.ask("GET", "/me");
    part("credit").textContent = new Intl.NumberFormat(document.documentElement.lang, {maximumFractionDigits: 2}).format(credit);
    part("account").textContent = account || say.visitors;
  }

  /** Ask with this browser's token; a token that has ended is replaced. */
  async ask(method, path, body) {
    let {token} = stored(OWNER, {});
    if (!token) {
      const name = /(Firefox|Edg|OPR|Chrome|Safari)\/\d+/.exec(navigator.userAgent)?.[0] ?? "browser";
      store(OWNER, await ask("POST", "", {name, account: page.dataset.ticket}));
      ({token} = stored(OWNER, {}));
    }
    try {
      return await ask(method, path, body, token);
    } catch (error) {
      if (error.status === 401) store(OWNER, null);
      throw error;
    }
  }

  async start() {
    this.running = true;
    this.showState();
    if (this.asking) return; // stopped a moment ago, with a request under way: that loop goes on
    this.asking = true;
    try {
      await this.shelf.open();
      while (this.running) await this.askAndWait();
    } finally {
      this.asking = false;
    }
  }

  async askAndWait() {
    let wait = ASK_AGAIN_MS;
    try {
      wait = await this.fill();
    } catch (error) {
      if (error.status === 403) return this.stop(error.message);
      part("message").textContent = error.message;
      wait = Math.max(ASK_AGAIN_MS, 1000 * (error.seconds || 0));
    }
    const longest = this.shelf.all().length ? SPEAK_MS : LONGEST_WAIT_MS;
    if (this.running) await Promise.race([later(Math.min(wait, longest)), new Promise((done) => (this.wake = done))]);
  }

  /** Begin jobs until each thread has one; milliseconds until it makes sense to look again. */
  async fill() {
    const {threads} = this.choices, held = this.shelf.all();
    for (const record of held)
      if (this.tasks.size < threads && !this.tasks.has(record.name)) this.begin(record);
    if (this.pausedFor && !held.length) return LONGEST_WAIT_MS;
    const names = held.map(({name}) => name), wanted = this.pausedFor ? 0 : Math.max(0, threads - this.tasks.size);
    const reply = await this.ask("POST", "/work", {wanted, held: names, threads, memory: this.memory});
    for (const name of reply.drop) {
      this.tasks.get(name)?.drop();
      await this.shelf.remove(name);
    }
    for (const job of reply.jobs) await this.shelf.add(job);
    const busy = (this.tasks.size || reply.jobs.length) && !reply.drop.length;
    part("message").textContent = busy ? "" : reply.messages.at(-1) ?? "";
    if (reply.jobs.length) return 0;
    await this.showCredit();
    return Math.max(ASK_AGAIN_MS, 1000 * reply.wait);
  }

  get memory() { return (navigator.deviceMemory ?? 4) * 1e9 / 2; }

  async begin(record) {
    const task = new Task(this, record);
    this.tasks.set(record.name, task);
    this.showState();
    let again = 0;
    try {
      const result = await task.run();
      if (result) await this.send(record, result);
    } catch (error) {
      if (!task.halt.signal.aborted) {
        task.show(error.message);
        again = ASK_AGAIN_MS;
      }
    }
    task.stop();
    await later(again);
    task.row.remove();
    this.tasks.delete(record.name);
    this.showState();
    this.wake?.();
  }

  /** Send a job's outputs and its report; kept until the server has both. */
  async send(record, result) {
    const {job} = record;
    await this.shelf.change(record.name, {result});
    for (const [place, bytes] of result.outputs.entries()) if (bytes) await this.upload(job, job.outputs[place], bytes);
    const report = {name: job.name, exit_status: result.status, cpu_time: result.seconds, elapsed_time: result.seconds,
      instructions: Number(result.instructions), stderr: result.stderr.slice(-55_000)};
    let counts = !result.status;
    try {
      const reply = await this.ask("POST", "/reports", report);
      if (reply.drop.length) { // another browser has it: the page was silent
        counts = false;
        part("message").textContent = reply.messages.at(-1) ?? "";
      }
    } catch (error) {
      if (error.status !== 404 && error.status !== 422) throw error; // it is not ours any more
    }
    await this.shelf.remove(record.name);
    this.add({jobs: counts ? 1 : 0});
  }

  async upload(job, {upload_header: header}, bytes) {
    const body = new Blob([header.replace("{nbytes}", bytes.length), bytes]);
    const answer = await online(fetch(job.upload_url, {method: "POST", body}));
    const text = await answer.text();
    // -1: the server will never take it; the report then says that it is missing.
    if (!/<status>(0|-1)<\/status>/.test(text)) throw new Error(say.busy);
  }

  stop(words = "") {
    this.running = false;
    for (const task of this.tasks.values()) task.drop();
    this.wake?.();
    this.showState();
    part("message").textContent = words;
  }

  /** Stand still, or go on, for one of the reasons. */
  hold(reason, on) {
    const was = Boolean(this.pausedFor);
    if (on) this.reasons.add(reason);
    else this.reasons.delete(reason);
    if (was !== Boolean(this.pausedFor)) {
      for (const task of this.tasks.values()) this.pausedFor ? task.pause() : task.resume();
      if (!this.pausedFor) this.wake?.();
    }
    this.showState();
  }

  showState() {
    part("start").textContent = this.running ? say.stop : say.start;
    part("pause").hidden = !this.running;
    part("pause").textContent = this.reasons.has("asked") ? say.resume : say.pause;
    part("status").textContent = !this.running ? say.idle : this.pausedFor ? say[this.pausedFor] ?? say.standing
      : this.tasks.size ? say.working : say.waiting;
  }
}

async function battery(compute) {
  const power = await navigator.getBattery?.();
  const look = () => compute.hold("battery", compute.choices.battery && power && !power.charging);
  power?.addEventListener("chargingchange", look);
  look();
  return look;
}

/** Tie the form to the choices. */
function choose(compute, changed) {
  const threads = part("threads"), {choices} = compute, most = Math.min(64, navigator.hardwareConcurrency || 1);
  for (let n = 1; n <= most; n++) threads.add(new Option(String(n), String(n), false, n === Math.min(choices.threads, most)));
  for (const name of ["battery", "hidden"]) part(name).checked = choices[name];
  page.querySelector("form").inert = false;
  page.querySelector("form").addEventListener("change", () => {
    store(CHOICES, {threads: Number(threads.value), battery: part("battery").checked, hidden: part("hidden").checked});
    changed();
    compute.wake?.();
  });
}

async function main() {
  const compute = new Compute(new Shelf());
  compute.showDay(compute.today());
  const watchHidden = () => {
    compute.hold("hidden", compute.choices.hidden && document.hidden);
    if (document.hidden) for (const task of compute.tasks.values()) task.wantCheckpoint();
  };
  const watchPower = await battery(compute);
  choose(compute, () => {
    watchHidden();
    watchPower();
  });
  document.addEventListener("visibilitychange", watchHidden);
  part("start").addEventListener("click", () => {
    if (compute.running) compute.stop();
    else if (compute.asking) compute.start();
    else alone(() => compute.start());
  });
  part("pause").addEventListener("click", () => compute.hold("asked", !compute.reasons.has("asked")));
  compute.showState();
  part("start").disabled = false;
}

/** One tab of a browser computes; further ones say so. Without storage there are no locks either. */
async function alone(compute) {
  if (!navigator.locks) return compute();
  const free = (lock) => {
    if (lock) return compute();
    part("message").textContent = say.elsewhere;
  };
  try {
    await navigator.locks.request(LOCK, {ifAvailable: true}, free);
  } catch (error) {
    if (error.name !== "SecurityError") throw error;
    await compute();
  }
}

main().catch((error) => (part("message").textContent = error.message));
