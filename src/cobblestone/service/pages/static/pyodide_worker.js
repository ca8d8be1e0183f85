/* Computes one job of Python with compiled packages, in a thread of its own: Pyodide, which the operator has put in place.
 *
 * Such a program could reach the functions of the browser, so all that it does not need is taken away before it begins; the policy of
 * this script lets it ask no server and run no text as JavaScript. Its clock begins with 2000 and moves by a millisecond at each look,
 * random bytes come from the name of the workunit. The interpreter looks at a place in memory for signals every so often: the place
 * is a function of ours, from which orders are heard and progress is told.
 */
import {BAD_DESCRIPTION, CHECKPOINT, CHECKPOINT_WANTED, DISK_BOUND, Ended, OUTPUT_MISSING, PROGRESS, SUSPENDED, TIME_TO_CHECKPOINT,
  TOLD_MS, TRAP, collected, ending, expand, expanded, given, readDescription, readOptions, refuse,
} from "./job_description.js";
import {RandomBytes, sha256} from "./wasi.js";

const DESCRIPTION = "cobblestone_pyodide.txt", FOLDER = "/home/pyodide";
const PAGE = 65536, NO_SPACE = 51, START_OF_TIME_MS = 946684800000, LOOK_MS = 50;
const KINDS = {wasm: "application/wasm", zip: "application/zip", json: "application/json"};
/** What is left of the browser to the program. */
const LEFT = new Set(`AggregateError Array ArrayBuffer Atomics BigInt BigInt64Array BigUint64Array Boolean DataView Date Error EvalError
  FinalizationRegistry Float16Array Float32Array Float64Array Function Infinity Int16Array Int32Array Int8Array Iterator JSON Map Math NaN
  Number Object Promise Proxy RangeError ReferenceError Reflect RegExp Set SharedArrayBuffer String Symbol SyntaxError TextDecoder
  TextEncoder TypeError URIError Uint16Array Uint32Array Uint8Array Uint8ClampedArray WeakMap WeakRef WeakSet WebAssembly clearTimeout
  console crypto decodeURI decodeURIComponent encodeURI encodeURIComponent globalThis isFinite isNaN parseFloat parseInt performance
  queueMicrotask self setTimeout undefined`.split(/\s+/));
const RUN = `
import runpy, sys, traceback
def run(words):
    sys.argv[:] = words
    sys.path.insert(0, "${FOLDER}")
    try:
        runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 255
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0
run
`;
const decoder = new TextDecoder(), encoder = new TextEncoder();
const send = postMessage.bind(self), realNow = performance.now.bind(performance);

/** What a program prints. */
class Printed {
  constructor() {
    this.parts = [];
    this.nbytes = 0;
  }

  write(bytes) {
    this.parts.push(bytes.slice());
    this.nbytes += bytes.length;
    return bytes.length;
  }

  get bytes() {
    const whole = new Uint8Array(this.nbytes);
    let at = 0;
    for (const part of this.parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  }
}

/** The clock of the program, in milliseconds; what we ourselves do to its files does not move it. */
class Clock {
  constructor(looks) {
    this.looks = looks;
    this.stands = false;
  }

  now() {
    if (!this.stands) this.looks++;
    return START_OF_TIME_MS + this.looks;
  }

  still(call) {
    const before = this.stands;
    this.stands = true;
    try {
      return call();
    } finally {
      this.stands = before;
    }
  }
}

const put = (name, value) => Object.defineProperty(self, name, {value, configurable: true, writable: true});

/** Clock, random numbers and memory are those of the job. */
function fix(clock, random, memoryBound) {
  const RealDate = Date;
  put("Date", class extends RealDate {
    constructor(...values) {
      super(...(values.length ? values : [clock.now()]));
    }

    static now() { return clock.now(); }
  });
  for (const part of ["Date", "Day", "FullYear", "Hours", "Milliseconds", "Minutes", "Month", "Seconds"]) // no time zone
    RealDate.prototype[`get${part}`] = RealDate.prototype[`getUTC${part}`];
  RealDate.prototype.getTimezoneOffset = () => 0;
  put("performance", {now: () => clock.now() - START_OF_TIME_MS, timeOrigin: START_OF_TIME_MS});
  put("crypto", {getRandomValues: (target) => {
    random.fill(new Uint8Array(target.buffer, target.byteOffset, target.byteLength));
    return target;
  }});
  Math.random = () => {
    const four = new Uint8Array(4);
    random.fill(four);
    return new DataView(four.buffer).getUint32(0) / 2 ** 32;
  };
  const grow = WebAssembly.Memory.prototype.grow;
  WebAssembly.Memory.prototype.grow = function (pages) {
    if (memoryBound > 0 && this.buffer.byteLength + pages * PAGE > memoryBound) throw new RangeError("the memory of the job is used up");
    return grow.call(this, pages);
  };
}

/** Take away what the program does not need: the network, storage, other threads, messages to the page. */
function close() {
  const last = EventTarget.prototype;
  for (let each = self; each !== last; each = Object.getPrototypeOf(each))
    for (const name of Object.getOwnPropertyNames(each))
      if (!LEFT.has(name) && name !== "constructor" && !Reflect.deleteProperty(each, name) && Object(self[name]) === self[name])
        throw refuse(`${name} cannot be taken away from programs in this browser`);
}

class Run {
  constructor({job, module, files, resume, orders, period, core, where}) {
    Object.assign(this, {job, module, files, resume, orders, period, core, where});
    this.about = readDescription(decoder.decode(files[DESCRIPTION] ?? new Uint8Array(0)));
    this.options = readOptions(job.command_line);
    this.mark = resume?.mark ?? "";
    this.clock = new Clock(resume?.looks ?? 0);
    this.random = new RandomBytes(sha256(encoder.encode(job.workunit)), resume?.drawn);
    this.began = this.lastCheckpoint = this.lastTold = this.lastLook = realNow();
    this.stdout = new Printed();
    this.stderr = new Printed();
    this.left = 0; // bytes that may be written before the sizes of all files are looked at again
    this.full = false;
    this.before = 1000 * (resume?.seconds ?? 0);
  }

  async load() {
    fix(this.clock, this.random, this.job.memory_bound);
    put("fetch", async (url) => {
      const name = String(url).split("/").at(-1);
      if (!this.core[name]) throw new TypeError(`${name} is not part of what is sent`);
      return new Response(this.core[name], {headers: {"Content-Type": KINDS[name.split(".").at(-1)]}});
    });
    const {loadPyodide} = await import(`${this.where}pyodide.mjs`);
    const python = await loadPyodide({
      indexURL: this.where, lockFileContents: decoder.decode(this.core["pyodide-lock.json"]),
      env: {...Object.fromEntries(this.about.variables), HOME: FOLDER, TZ: "UTC"},
    });
    if (this.job.memory_bound > 0 && python._module.HEAP8.length > this.job.memory_bound)
      throw refuse(`Python begins with more memory than the job may have (${(this.job.memory_bound / 1e6).toFixed(0)} MB)`);
    const version = python.runPython("import sys; '%d.%d' % sys.version_info[:2]");
    python.unpackArchive(this.module, "zip", {extractDir: `/lib/python${version}/site-packages`});
    python.setStdout(this.stdout);
    python.setStderr(this.stderr);
    return python;
  }

  /** Lay out the folder, and hear what happens in it. */
  layOut(files) {
    this.fs = files;
    this.began = realNow();
    const paths = this.resume ? this.resume.files : given(this.about, this.options).map((name) => [name, this.files[name]]);
    for (const [path, bytes] of paths) {
      if (!bytes) throw refuse(`the file ${path} is missing`);
      files.mkdirTree(`${FOLDER}/${path}`.split("/").slice(0, -1).join("/"));
      files.writeFile(`${FOLDER}/${path}`, bytes);
    }
    this.remove(TIME_TO_CHECKPOINT);
    const {rename, stat, write, truncate, ftruncate} = files;
    const fits = (nbytes) => {
      if (!this.clock.still(() => this.hasRoom(nbytes))) throw new files.ErrnoError(NO_SPACE);
    };
    files.write = (stream, buffer, offset, length, ...more) => {
      fits(length);
      return write(stream, buffer, offset, length, ...more);
    };
    files.truncate = (path, length) => {
      fits(length);
      truncate(path, length);
    };
    files.ftruncate = (file, length) => {
      fits(length);
      ftruncate(file, length);
    };
    files.rename = (from, to) => {
      rename(from, to);
      if (String(to).split("/").at(-1) === CHECKPOINT) this.clock.still(() => this.kept());
    };
    files.stat = (path, ...more) => {
      if (String(path).split("/").at(-1) === TIME_TO_CHECKPOINT) this.clock.still(() => this.look());
      return stat(path, ...more);
    };
  }

  read(name) {
    try {
      return this.fs.readFile(`${FOLDER}/${name}`);
    } catch {
      return null;
    }
  }

  remove(name) {
    if (this.read(name)) this.fs.unlink(`${FOLDER}/${name}`);
  }

  /** All files of the folder, with their paths. */
  *walk(path = "") {
    for (const name of this.fs.readdir(`${FOLDER}/${path}`).sort()) {
      if (name === "." || name === "..") continue;
      const {mode} = this.fs.lstat(`${FOLDER}/${path}${name}`);
      if (this.fs.isDir(mode)) yield* this.walk(`${path}${name}/`);
      else if (this.fs.isFile(mode)) yield path + name;
    }
  }

  /** Whether so many bytes more keep the job within its bound. */
  hasRoom(nbytes) {
    if (!(this.job.disk_bound > 0)) return true;
    this.left -= nbytes;
    if (this.left >= 0) return true;
    this.left = this.job.disk_bound - nbytes - this.stdout.nbytes - this.stderr.nbytes;
    for (const path of this.walk()) this.left -= this.fs.lstat(`${FOLDER}/${path}`).size;
    this.full ||= this.left < 0;
    return this.left >= 0;
  }

  /** The program looks whether it is time for a checkpoint. */
  look() {
    const wanted = this.orders && Atomics.load(this.orders, CHECKPOINT_WANTED);
    if (wanted || realNow() - this.lastCheckpoint >= this.period * 1000) this.fs.writeFile(`${FOLDER}/${TIME_TO_CHECKPOINT}`, "");
  }

  kept() {
    const mark = decoder.decode(this.read(CHECKPOINT)?.slice(0, 99)).split(/[\r\n]/)[0];
    if (!mark || mark === this.mark) return;
    this.mark = mark;
    this.lastCheckpoint = realNow();
    const files = [...this.walk()].map((path) => [path, this.read(path).slice()]);
    send({kind: "checkpoint", state: {files, mark, looks: this.clock.looks, drawn: this.random.drawn, instructions: "0"}}, files.map(([, bytes]) => bytes.buffer));
  }

  get fractionDone() {
    const told = parseFloat(decoder.decode(this.read(PROGRESS)?.slice(0, 99)));
    if (told > 0) return Math.min(told, 1);
    const part = this.job.instructions_est > 0 ? (this.before + realNow() - this.began) * 1e6 / this.job.instructions_est : 0;
    return part < 0.9 ? part : 1 - 0.09 / part;
  }

  /** The interpreter looks for a signal. */
  onLook() {
    const now = realNow();
    if (now - this.lastLook < LOOK_MS) return;
    this.lastLook = now;
    if (this.orders) while (Atomics.load(this.orders, SUSPENDED)) Atomics.wait(this.orders, SUSPENDED, 1);
    if (now - this.lastTold < TOLD_MS) return;
    this.lastTold = now;
    send({kind: "progress", fraction: this.fractionDone, instructions: "0"});
  }

  async compute() {
    const python = await this.load(), lines = [];
    this.layOut(python.FS);
    const run = python.runPython(RUN), [, ...words] = expanded(this.about, this.options, this.period);
    const look = () => {
      this.clock.still(() => this.onLook());
      return 0; // no signal
    };
    python.setInterruptBuffer({get 0() { return look(); }, set 0(_value) { /* nobody else looks */ }});
    for (const name of ["js", "pyodide_js"]) python.unregisterJsModule(name);
    close();
    let status;
    try {
      status = run(python.toPy(words));
    } catch (error) {
      status = TRAP;
      lines.push(`Python failed: ${error.message}`);
    }
    if (this.full) {
      status = DISK_BOUND;
      lines.push(`the job uses more disk than its bound of ${(this.job.disk_bound / 1e6).toFixed(0)} MB`);
    }
    lines.push(`${(python._module.HEAP8.length / 1e6).toFixed(1)} MB of memory`);
    const stdout = this.about.stdout && expand(this.about.stdout, this.options, this.period);
    const read = (name) => (name === stdout ? this.stdout.bytes : this.read(name));
    const outputs = status ? [] : collected(this.job, this.about, this.options, read, lines);
    return ending(status || (outputs ? 0 : OUTPUT_MISSING), outputs ?? [], this.stderr.bytes, lines);
  }
}

addEventListener("message", async ({data}) => {
  try {
    const result = await new Run(data).compute();
    send(result, result.outputs.filter(Boolean).map((bytes) => bytes.buffer));
  } catch (error) {
    send(ending(error instanceof Ended ? error.status : BAD_DESCRIPTION, [], new Uint8Array(0), [error.message]));
  }
});
