/* The world that a WebAssembly module sees in a browser: WASI preview 1 with one folder in memory, which is all there is.
 *
 * What it answers is what the native launcher answers (launcher/native/engine.c): the clock counts the module's instructions, a
 * nanosecond each, from the beginning of 2000; to sleep moves it; random bytes come from the name of the workunit; folders list
 * their files in order. Numbers and layouts: the specification of WASI preview 1 (witx).
 */
"use strict";

const OK = 0, BADF = 8, EXIST = 20, FAULT = 21, INVAL = 28, ISDIR = 31, NOENT = 44, NOSYS = 52, NOTDIR = 54, NOTEMPTY = 55,
  NOTSUP = 58, SPIPE = 70, NOTCAPABLE = 76;
const UNKNOWN = 0, DIRECTORY = 3, REGULAR = 4;
const CREATE = 1, MUST_BE_DIRECTORY = 2, MUST_BE_NEW = 4, TRUNCATE = 8, APPEND = 1;
const ALL_RIGHTS = 0x1fffffffn, MAY_READ = 2n, MAY_WRITE = 64n;
const START_OF_TIME = 946684800n * 1000000000n;
const MOST_SUBSCRIPTIONS = 4096, EVENT_BYTES = 32, SUBSCRIPTION_BYTES = 48;
const decoder = new TextDecoder(), encoder = new TextEncoder();

let inodes = 1n;

/** A file: bytes that grow. */
export class File {
  constructor(bytes = new Uint8Array(0)) {
    this.room = bytes;
    this.size = bytes.length;
    this.inode = inodes++;
  }

  get bytes() { return this.room.subarray(0, this.size); }

  resize(size) {
    if (size > this.room.length) {
      const room = new Uint8Array(Math.max(size, 2 * this.room.length, 256));
      room.set(this.bytes);
      this.room = room;
    } else if (size < this.size) {
      this.room.fill(0, size, this.size);
    }
    this.size = size;
  }

  write(bytes, at) {
    if (at + bytes.length > this.size) this.resize(at + bytes.length);
    this.room.set(bytes, at);
  }
}

/** A folder. */
export class Folder {
  constructor() {
    this.entries = new Map();
    this.inode = inodes++;
  }

  get names() { return [...this.entries.keys()].sort(); }

  /** All files below, with their paths. */
  *files(path = "") {
    for (const name of this.names) {
      const node = this.entries.get(name);
      if (node instanceof Folder) yield* node.files(`${path}${name}/`);
      else yield [path + name, node];
    }
  }

  /** Put a file at a path; the folders on the way are made. */
  put(path, file) {
    const [first, ...rest] = path.split("/");
    if (!rest.length) return void this.entries.set(first, file);
    if (!this.entries.has(first)) this.entries.set(first, new Folder());
    this.entries.get(first).put(rest.join("/"), file);
  }

  get nbytes() {
    let sum = 0;
    for (const [, file] of this.files()) sum += file.size;
    return sum;
  }
}

/** The module called exit(). */
export class Exit extends Error {
  constructor(status) {
    super(`exit ${status}`);
    this.status = status;
  }
}

/** An error number of WASI. */
class Problem extends Error {
  constructor(number) {
    super(`errno ${number}`);
    this.number = number;
  }
}

/** Bytes that follow from a seed: SHA-256 of the seed and the number of each block. */
export class RandomBytes {
  constructor(seed) {
    this.block = new Uint8Array(40);
    this.block.set(seed);
    this.number = 0n;
    this.left = new Uint8Array(0);
  }

  fill(target) {
    for (let i = 0; i < target.length; i++) {
      if (!this.left.length) {
        new DataView(this.block.buffer).setBigUint64(32, this.number++, true);
        this.left = sha256(this.block);
      }
      target[i] = this.left[0];
      this.left = this.left.subarray(1);
    }
  }
}

/** What one run sees. `count` tells the instructions so far; `look` hears of a name in the folder before it is looked up, and
 * `kept` when a file of that name was closed or renamed to it. */
export class World {
  constructor({folder, words, variables, seed, count, look, kept}) {
    Object.assign(this, {folder, words, count, look, kept});
    this.variables = variables.map(([name, value]) => `${name}=${value}`);
    this.stdout = new File();
    this.stderr = new File();
    this.files = [
      {stream: null, rights: MAY_READ}, {stream: this.stdout, rights: MAY_WRITE}, {stream: this.stderr, rights: MAY_WRITE},
      {node: folder, position: 0, flags: 0},
    ];
    this.slept = 0n;
    this.random = new RandomBytes(seed);
    this.memory = null; // once there is an instance
  }

  /** The functions to import; those that fail in the ordinary way return a number. */
  get imports() {
    const functions = {};
    for (const name of Object.getOwnPropertyNames(Functions.prototype)) {
      if (name === "constructor") continue;
      const call = Functions.prototype[name];
      functions[name] = (...values) => {
        try {
          return call.apply(this, values) ?? OK;
        } catch (error) {
          if (error instanceof Problem) return error.number;
          if (error instanceof RangeError && /offset|bounds|length/i.test(error.message)) return FAULT;
          throw error;
        }
      };
    }
    return functions;
  }

  get now() { return START_OF_TIME + this.count() + this.slept; }
  get view() { return new DataView(this.memory.buffer); }

  at(address, size) {
    if ((address >>> 0) + size > this.memory.buffer.byteLength) throw new Problem(FAULT);
    return new Uint8Array(this.memory.buffer, address >>> 0, size);
  }

  text(address, size) { return decoder.decode(this.at(address, size >>> 0).slice()); }

  file(number) {
    const found = this.files[number];
    if (!found) throw new Problem(BADF);
    return found;
  }

  /** An open file, not a stream or folder. */
  regular(number) {
    const found = this.file(number);
    if (found.node instanceof Folder) throw new Problem(ISDIR);
    if (!found.node) throw new Problem(SPIPE);
    return found;
  }

  /** The folder and name that a path means; nothing outside of the folder can be meant. */
  place(number, path) {
    const from = this.file(number).node;
    if (!(from instanceof Folder)) throw new Problem(NOTDIR);
    if (path.startsWith("/")) throw new Problem(NOTCAPABLE);
    const trail = [from];
    const parts = path.split("/").filter((part) => part && part !== ".");
    let name = ".";
    for (const [place, part] of parts.entries()) {
      const folder = trail.at(-1);
      if (part === "..") {
        if (trail.length === 1) throw new Problem(NOTCAPABLE);
        trail.pop();
        name = ".";
        continue;
      }
      name = part;
      if (place === parts.length - 1) break;
      const next = folder.entries.get(part);
      if (!next) throw new Problem(NOENT);
      if (!(next instanceof Folder)) throw new Problem(NOTDIR);
      trail.push(next);
      name = ".";
    }
    const folder = trail.at(-1);
    if (folder === this.folder) this.look(name);
    return {folder, name, node: name === "." ? folder : folder.entries.get(name)};
  }

  existing(number, path) {
    const found = this.place(number, path);
    if (!found.node) throw new Problem(NOENT);
    return found;
  }

  /** Tell of a file at the top of the folder that may be whole now. */
  noticed(node) {
    for (const [name, file] of this.folder.entries) if (file === node) this.kept(name, file);
  }

  stat(target, node, kind = node instanceof Folder ? DIRECTORY : REGULAR) {
    const view = this.view;
    this.at(target, 64).fill(0);
    if (!node) return view.setUint8(target + 16, kind);
    view.setBigUint64(target, 1n, true);
    view.setBigUint64(target + 8, node.inode, true);
    view.setUint8(target + 16, kind);
    view.setBigUint64(target + 24, 1n, true);
    view.setBigUint64(target + 32, BigInt(node.size ?? 0), true);
    for (const time of [40, 48, 56]) view.setBigUint64(target + time, START_OF_TIME, true);
  }

  list(pointers, buffer, texts) {
    for (const text of texts) {
      this.view.setUint32(pointers, buffer, true);
      const bytes = encoder.encode(`${text}\0`);
      this.at(buffer, bytes.length).set(bytes);
      pointers += 4;
      buffer += bytes.length;
    }
  }

  sizes(count, size, texts) {
    this.view.setUint32(count, texts.length, true);
    this.view.setUint32(size, texts.reduce((sum, text) => sum + encoder.encode(text).length + 1, 0), true);
  }

  /** The pieces of memory that a list of buffers names. */
  *pieces(vectors, count) {
    for (let i = 0; i < count; i++) {
      const view = this.view;
      yield this.at(view.getUint32(vectors + 8 * i, true), view.getUint32(vectors + 8 * i + 4, true));
    }
  }

  readAt(file, vectors, count, position, result) {
    let done = 0;
    for (const piece of this.pieces(vectors, count)) {
      const bytes = file.bytes.subarray(position + done, position + done + piece.length);
      piece.set(bytes);
      done += bytes.length;
      if (bytes.length < piece.length) break;
    }
    this.view.setUint32(result, done, true);
    return done;
  }

  writeAt(file, vectors, count, position, result) {
    let done = 0;
    for (const piece of this.pieces(vectors, count)) {
      file.write(piece, position + done);
      done += piece.length;
    }
    this.view.setUint32(result, done, true);
    return done;
  }
}

/* Each function of WASI with its own name; `this` is the world. */
class Functions {
  args_get(pointers, buffer) { this.list(pointers, buffer, this.words); }
  args_sizes_get(count, size) { this.sizes(count, size, this.words); }
  environ_get(pointers, buffer) { this.list(pointers, buffer, this.variables); }
  environ_sizes_get(count, size) { this.sizes(count, size, this.variables); }

  clock_res_get(_clock, result) { this.view.setBigUint64(result, 1n, true); }
  clock_time_get(_clock, _precision, result) { this.view.setBigUint64(result, this.now, true); }

  random_get(address, size) {
    this.random.fill(this.at(address, size >>> 0));
  }

  /* Waits in the module's own time; files are always ready. */
  poll_oneoff(subscriptions, events, wanted, result) {
    wanted >>>= 0;
    if (!wanted || wanted > MOST_SUBSCRIPTIONS) return INVAL;
    const view = this.view, given = [];
    this.at(subscriptions, wanted * SUBSCRIPTION_BYTES);
    for (let i = 0; i < wanted; i++) {
      const each = subscriptions + i * SUBSCRIPTION_BYTES;
      const kind = view.getUint8(each + 8), timeout = view.getBigUint64(each + 24, true);
      const absolute = view.getUint16(each + 40, true) & 1;
      given.push({each, kind, end: kind ? 0n : absolute ? timeout : this.now + timeout});
    }
    const files = given.some(({kind}) => kind);
    const first = given.reduce((least, {end}) => (end < least ? end : least), 2n ** 65n);
    if (!files && first > this.now) this.slept += first - this.now;
    const ready = given.filter(({kind, end}) => (files ? kind : end <= this.now));
    for (const [place, {each, kind}] of ready.entries()) {
      const event = this.at(events + place * EVENT_BYTES, EVENT_BYTES);
      event.fill(0);
      event.set(this.at(each, 8));
      event[10] = kind;
      event[16] = files ? 1 : 0;
    }
    view.setUint32(result, ready.length, true);
  }

  proc_exit(status) { throw new Exit(status); }
  proc_raise() { return NOSYS; }
  sched_yield() {}
  sock_accept() { return NOTSUP; }
  sock_recv() { return NOTSUP; }
  sock_send() { return NOTSUP; }
  sock_shutdown() { return NOTSUP; }

  fd_advise(number) { this.regular(number); }
  fd_allocate() { return NOTSUP; }
  fd_datasync(number) { this.file(number); }
  fd_sync(number) { this.file(number); }
  fd_fdstat_set_rights(number) { this.file(number); }
  fd_filestat_set_times(number) { this.file(number); }

  fd_close(number) {
    const {node} = this.file(number);
    this.files[number] = undefined;
    if (node instanceof File) this.noticed(node);
  }

  fd_fdstat_get(number, target) {
    const {node, flags = 0, rights = ALL_RIGHTS} = this.file(number), view = this.view;
    this.at(target, 24).fill(0);
    view.setUint8(target, node instanceof Folder ? DIRECTORY : node ? REGULAR : UNKNOWN);
    view.setUint16(target + 2, flags, true);
    view.setBigUint64(target + 8, rights, true);
    view.setBigUint64(target + 16, rights, true);
  }

  fd_fdstat_set_flags(number, flags) { this.regular(number).flags = flags; }

  fd_filestat_get(number, target) {
    const {node} = this.file(number);
    this.stat(target, node, node instanceof Folder ? DIRECTORY : node ? REGULAR : UNKNOWN);
  }

  fd_filestat_set_size(number, size) { this.regular(number).node.resize(Number(size)); }

  fd_prestat_get(number, target) {
    if (number !== 3) return BADF;
    this.at(target, 8).fill(0);
    this.view.setUint32(target + 4, 1, true);
  }

  fd_prestat_dir_name(number, target) {
    if (number !== 3) return BADF;
    this.at(target, 1)[0] = ".".charCodeAt(0);
  }

  fd_pread(number, vectors, count, offset, result) {
    this.readAt(this.regular(number).node, vectors, count, Number(offset), result);
  }

  fd_pwrite(number, vectors, count, offset, result) {
    this.writeAt(this.regular(number).node, vectors, count, Number(offset), result);
  }

  fd_read(number, vectors, count, result) {
    const file = this.file(number);
    if (file.stream !== undefined) return file.stream ? BADF : void this.view.setUint32(result, 0, true);
    file.position += this.readAt(this.regular(number).node, vectors, count, file.position, result);
  }

  fd_write(number, vectors, count, result) {
    const file = this.file(number);
    if (file.stream) return void this.writeAt(file.stream, vectors, count, file.stream.size, result);
    const {node} = this.regular(number);
    if (file.flags & APPEND) file.position = node.size;
    file.position += this.writeAt(node, vectors, count, file.position, result);
  }

  fd_readdir(number, buffer, size, cookie, result) {
    const {node} = this.file(number);
    if (!(node instanceof Folder)) return NOTDIR;
    const entries = [[".", node], ["..", node], ...node.names.map((name) => [name, node.entries.get(name)])];
    const target = this.at(buffer, size >>> 0);
    let used = 0;
    for (let place = Number(cookie); place < entries.length && used < target.length; place++) {
      const [name, each] = entries[place], bytes = encoder.encode(name);
      const entry = new Uint8Array(24 + bytes.length), view = new DataView(entry.buffer);
      view.setBigUint64(0, BigInt(place + 1), true);
      view.setBigUint64(8, each.inode, true);
      view.setUint32(16, bytes.length, true);
      view.setUint8(20, each instanceof Folder ? DIRECTORY : REGULAR);
      entry.set(bytes, 24);
      const part = entry.subarray(0, target.length - used);
      target.set(part, used);
      used += part.length;
    }
    this.view.setUint32(result, used, true);
  }

  fd_renumber(from, to) {
    this.files[to] = this.file(from);
    this.files[from] = undefined;
  }

  fd_seek(number, offset, whence, result) {
    const file = this.regular(number);
    const base = [0, file.position, file.node.size][whence];
    if (base === undefined || base + Number(offset) < 0) return INVAL;
    file.position = base + Number(offset);
    this.view.setBigUint64(result, BigInt(file.position), true);
  }

  fd_tell(number, result) { this.view.setBigUint64(result, BigInt(this.regular(number).position), true); }

  path_create_directory(number, path, size) {
    const {folder, name, node} = this.place(number, this.text(path, size));
    if (node) return EXIST;
    folder.entries.set(name, new Folder());
  }

  path_filestat_get(number, _flags, path, size, target) {
    this.stat(target, this.existing(number, this.text(path, size)).node);
  }

  path_filestat_set_times(number, _flags, path, size) { this.existing(number, this.text(path, size)); }
  path_link() { return NOTSUP; }
  path_symlink() { return NOTSUP; }

  path_readlink(number, path, size) {
    this.existing(number, this.text(path, size));
    return INVAL;
  }

  path_open(number, _lookup, path, size, how, _base, _inheriting, flags, result) {
    const found = this.place(number, this.text(path, size));
    let {node} = found;
    if (node && how & CREATE && how & MUST_BE_NEW) return EXIST;
    if (!node && !(how & CREATE)) return NOENT;
    if (how & MUST_BE_DIRECTORY && !(node instanceof Folder)) return NOTDIR;
    if (node instanceof Folder && how & (CREATE | TRUNCATE)) return ISDIR;
    if (!node) found.folder.entries.set(found.name, (node = new File()));
    else if (how & TRUNCATE) node.resize(0);
    let place = this.files.findIndex((file, i) => i > 3 && !file);
    if (place < 0) place = this.files.length;
    this.files[place] = {node, position: 0, flags};
    this.view.setUint32(result, place, true);
  }

  path_remove_directory(number, path, size) {
    const {folder, name, node} = this.existing(number, this.text(path, size));
    if (!(node instanceof Folder)) return NOTDIR;
    if (name === ".") return INVAL;
    if (node.entries.size) return NOTEMPTY;
    folder.entries.delete(name);
  }

  path_rename(from, path, size, to, newPath, newSize) {
    const old = this.existing(from, this.text(path, size)), next = this.place(to, this.text(newPath, newSize));
    if (old.name === "." || next.name === ".") return INVAL;
    if (next.node === old.node) return OK;
    if (next.node instanceof Folder) {
      if (!(old.node instanceof Folder)) return ISDIR;
      if (next.node.entries.size) return NOTEMPTY;
    } else if (next.node && old.node instanceof Folder) {
      return NOTDIR;
    }
    old.folder.entries.delete(old.name);
    next.folder.entries.set(next.name, old.node);
    if (old.node instanceof File) this.noticed(old.node);
  }

  path_unlink_file(number, path, size) {
    const {folder, name, node} = this.existing(number, this.text(path, size));
    if (node instanceof Folder) return ISDIR;
    folder.entries.delete(name);
  }
}

/** SHA-256 (FIPS 180-4), of which browsers have only one that has to be waited for. */
export function sha256(bytes) {
  const words = new Uint32Array(64), state = Uint32Array.from(ROOTS);
  const padded = new Uint8Array(((bytes.length + 72) >> 6) << 6);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  new DataView(padded.buffer).setBigUint64(padded.length - 8, BigInt(bytes.length) * 8n);
  const rotate = (value, count) => (value >>> count) | (value << (32 - count));
  for (let at = 0; at < padded.length; at += 64) {
    const view = new DataView(padded.buffer, at);
    for (let i = 0; i < 16; i++) words[i] = view.getUint32(4 * i);
    for (let i = 16; i < 64; i++) {
      const a = words[i - 15], b = words[i - 2];
      words[i] = words[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ (a >>> 3)) + words[i - 7]
        + (rotate(b, 17) ^ rotate(b, 19) ^ (b >>> 10));
    }
    const s = Array.from(state);
    for (let i = 0; i < 64; i++) {
      const first = (s[7] + (rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25)) + ((s[4] & s[5]) ^ (~s[4] & s[6]))
        + CONSTANTS[i] + words[i]) | 0;
      const second = ((rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]))) | 0;
      s.unshift((first + second) | 0);
      s.pop();
      s[4] = (s[4] + first) | 0;
    }
    for (let i = 0; i < 8; i++) state[i] += s[i];
  }
  const digest = new DataView(new ArrayBuffer(32));
  state.forEach((word, i) => digest.setUint32(4 * i, word));
  return new Uint8Array(digest.buffer);
}

/* The first 32 bits of the fractions of roots of the first primes: of square roots the state, of cube roots the constants. */
const PRIMES = Array.from({length: 312}, (_, n) => n).filter((n) => n > 1 && !Array.from({length: n - 2}, (_, d) => d + 2).some((d) => n % d === 0));
const fraction = (root) => Math.floor((root - Math.floor(root)) * 2 ** 32);
const ROOTS = PRIMES.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));
const CONSTANTS = PRIMES.slice(0, 64).map((prime) => fraction(Math.cbrt(prime)));
