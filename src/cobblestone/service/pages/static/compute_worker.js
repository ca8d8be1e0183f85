/* Computes one job, in a thread of its own: what launcher/native/launcher.c does on a computer, in a browser.
 *
 * The module counts its own instructions and calls us every so often; see sdk/wasm/instrument.py. While it runs no message reaches
 * this thread. So orders come through shared memory where the page may have some: [suspended].
 */
import {BAD_DESCRIPTION, CHECKPOINT, DISK_BOUND, Ended, INSTRUCTIONS_BOUND, MAKES_CHECKPOINTS, OUTPUT_MISSING, PROGRESS, SUSPENDED,
  TIME_TO_CHECKPOINT, TOLD_MS, TRAP, collected, ending, expand, expanded, given, readDescription, readOptions, refuse,
} from "./job_description.js";
import {Exit, File, Folder, World, sha256} from "./wasi.js";

const DESCRIPTION = "cobblestone_wasm.txt";
const PERIOD = 60; // what every module is told for {checkpoint_period}
const SLICE = 20_000_000n, MOST = 0x7fffffffffffffffn, PAGE = 65536;
const decoder = new TextDecoder(), encoder = new TextEncoder();

/** WebAssembly's view of a function of ours: only such may stand in a table. */
async function wrapped(call) {
  const bytes = new Uint8Array([
    0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 2, 7, 1, 1, 104, 1, 104, 0, 0, 7, 5, 1, 1, 104, 0, 0,
  ]);
  const {instance} = await WebAssembly.instantiate(bytes, {h: {h: call}});
  return instance.exports.h;
}

/** The module has made a checkpoint: the next instance goes on from it. */
class Again extends Error {}

class Run {
  constructor({job, module, files, resume, orders}) {
    Object.assign(this, {job, module, resume, orders});
    this.about = readDescription(decoder.decode(files[DESCRIPTION] ?? new Uint8Array(0)));
    this.least = this.about.checkpoint;
    this.options = readOptions(job.command_line);
    this.folder = new Folder();
    for (const name of given(this.about, this.options)) {
      if (!files[name]) throw refuse(`the file ${name} is missing`);
      this.folder.put(name, new File(files[name].slice()));
    }
    this.mark = "";
    this.before = 0n;
    if (resume) {
      this.folder = new Folder();
      for (const path of resume.folders ?? []) this.folder.put(path, new Folder());
      for (const [path, bytes] of resume.files) this.folder.put(path, new File(bytes));
      this.mark = resume.mark;
      this.before = BigInt(resume.instructions);
      this.folder.entries.delete(TIME_TO_CHECKPOINT);
    } else {
      this.folder.entries.delete(PROGRESS);
    }
    this.lastTold = performance.now();
    this.fuel = null; // the module's own count, once there is an instance
  }

  get instructions() { return this.before + (this.fuel ? this.fuel.value : 0n); }

  /** Add instructions of a call; the module is asked for a checkpoint after as many on every computer. */
  charge(amount) {
    this.fuel.value += BigInt(amount);
    if (this.isDue && !this.folder.entries.has(TIME_TO_CHECKPOINT)) this.folder.put(TIME_TO_CHECKPOINT, new File());
  }

  get isDue() { return this.fuel.value >= this.due; }

  /** The module has closed or renamed a file: a checkpoint, if it tells of a new one; what its start takes is a tenth at most. */
  kept(name, file) {
    if (name === MAKES_CHECKPOINTS && !this.announced) {
      this.announced = true;
      this.due = 10n * this.fuel.value > this.least ? 10n * this.fuel.value : this.least;
      this.folder.entries.delete(TIME_TO_CHECKPOINT);
    }
    if (name !== CHECKPOINT || !this.isDue) return;
    const [mark] = String.fromCharCode(...file.bytes.subarray(0, 99)).split(/[\0\r\n]/); // any bytes, as the launcher compares them
    if (!mark || mark === this.mark) return;
    this.mark = mark;
    const copies = [...this.folder.files()].map(([path, each]) => [path, each.bytes.slice()]);
    const files = copies.filter(([path]) => path !== TIME_TO_CHECKPOINT);
    const {slept, random: {drawn}, stdout} = this.world;
    const state = {files, folders: [...this.folder.folders()], mark, instructions: String(this.instructions), slept: String(slept), drawn,
      stdout: stdout.bytes.slice()};
    postMessage({kind: "checkpoint", state}, files.map(([, bytes]) => bytes.buffer));
    throw new Again();
  }

  get fractionDone() {
    const told = this.folder.entries.get(PROGRESS);
    const said = told instanceof File ? parseFloat(decoder.decode(told.bytes.slice(0, 99))) : 0;
    if (said > 0) return Math.min(said, 1);
    const part = this.job.instructions_est > 0 ? Number(this.instructions) / this.job.instructions_est : 0;
    return part < 0.9 ? part : 1 - 0.09 / part;
  }

  /** Called from the module's loops. */
  onSlice(nextCall) {
    if (this.instructions >= this.bound)
      throw new Ended(INSTRUCTIONS_BOUND, `the module ran for more than ${this.bound} instructions, the bound of the job`);
    if (this.job.disk_bound > 0 && this.folder.nbytes > this.job.disk_bound)
      throw new Ended(DISK_BOUND, `the job uses more disk than its bound of ${(this.job.disk_bound / 1e6).toFixed(0)} MB`);
    const now = performance.now();
    if (now - this.lastTold > TOLD_MS) {
      this.lastTold = now;
      postMessage({kind: "progress", fraction: this.fractionDone, instructions: String(this.instructions)});
    }
    this.wait();
    const next = this.fuel.value + SLICE, last = this.bound - this.before;
    nextCall.value = next < last ? next : last;
  }

  /** Stand still while the run is suspended. */
  wait() {
    if (this.orders) while (Atomics.load(this.orders, SUSPENDED)) Atomics.wait(this.orders, SUSPENDED, 1);
  }

  async instance(world) {
    this.compiled ??= await WebAssembly.compile(this.module);
    const {exports} = await WebAssembly.instantiate(this.compiled, {wasi_snapshot_preview1: world.imports});
    this.fuel = exports["cobblestone:fuel"];
    const nextCall = exports["cobblestone:next_call"], pages = exports["cobblestone:memory_pages"];
    if (!this.fuel || !nextCall || !pages || !exports._start || !exports.memory) throw refuse("the module is not one for browsers");
    const most = Math.floor(this.job.memory_bound / PAGE);
    if (most > 0 && exports.memory.buffer.byteLength > most * PAGE)
      throw refuse(`the module begins with more memory than the job may have (${(this.job.memory_bound / 1e6).toFixed(0)} MB)`);
    if (most > 0) pages.value = BigInt(most);
    exports["cobblestone:host"].set(0, await wrapped(() => this.onSlice(nextCall)));
    const bound = this.job.instructions_bound;
    this.bound = bound > 0 && bound < 4e18 ? BigInt(Math.floor(bound)) : MOST;
    nextCall.value = 0n;
    return exports;
  }

  /** Run the program once, from its start to its end or to a checkpoint; the bytes of its memory. */
  async once(resume) {
    this.due = this.least;
    this.announced = false;
    const world = this.world = new World({
      folder: this.folder, words: expanded(this.about, this.options, PERIOD), variables: this.about.variables,
      seed: sha256(encoder.encode(this.job.workunit)), resume, count: () => this.instructions,
      charge: (amount) => this.charge(amount), kept: (name, file) => this.kept(name, file), wait: () => this.wait(),
    });
    const exports = await this.instance(world);
    world.memory = exports.memory;
    try {
      exports._start();
    } finally {
      this.memory = Math.max(this.memory, exports.memory.buffer.byteLength);
    }
  }

  /** Run the program. Each checkpoint is the end of an instance and the beginning of the next, as it would be after an interruption:
   * so the same instructions are executed, and counted, however often there is one. */
  async untilEnd() {
    for (let resume = this.resume; ;) {
      try {
        return await this.once(resume);
      } catch (error) {
        if (!(error instanceof Again)) throw error;
        const {slept, random: {drawn}, stdout} = this.world;
        resume = {slept, drawn, stdout: stdout.bytes};
        this.before = this.instructions;
        this.fuel = null;
        this.folder.entries.delete(TIME_TO_CHECKPOINT);
      }
    }
  }

  async compute() {
    const lines = [];
    const began = performance.now();
    let status = 0;
    this.memory = 0;
    try {
      await this.untilEnd();
    } catch (error) {
      const failed = error instanceof WebAssembly.RuntimeError || error instanceof RangeError;
      if (!failed && !(error instanceof Exit || error instanceof Ended)) throw error;
      status = failed ? TRAP : error.status;
      if (failed) lines.push(`the module failed: ${error.message}`);
      else if (error instanceof Ended) lines.push(error.message);
    }
    const {world} = this;
    lines.unshift(`${this.instructions} instructions counted, ${(this.memory / 1e6).toFixed(1)} MB of memory`);
    if (this.about.stdout) this.folder.entries.set(expand(this.about.stdout, this.options, PERIOD), world.stdout);
    const read = (name) => {
      const file = this.folder.entries.get(name);
      return file instanceof File ? file.bytes.slice() : null;
    };
    const outputs = status ? [] : collected(this.job, this.about, this.options, read, lines);
    if (!status && !outputs) status = OUTPUT_MISSING;
    return ending(status, outputs ?? [], world.stderr.bytes, lines, {
      seconds: (performance.now() - began) / 1000, instructions: String(this.instructions),
    });
  }
}

addEventListener("message", async ({data}) => {
  try {
    const result = await new Run(data).compute();
    postMessage(result, result.outputs.filter(Boolean).map((bytes) => bytes.buffer));
  } catch (error) {
    const status = error instanceof Ended ? error.status : BAD_DESCRIPTION;
    postMessage(ending(status, [], new Uint8Array(0), [error.message]));
  }
});
