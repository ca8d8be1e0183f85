/* The world that a WebAssembly module sees in a browser: WASI preview 1 with one folder in memory, which is all there is.
 *
 * What it answers is what the native launcher answers (launcher/native/engine.c): the clock counts the module's instructions, a
 * nanosecond each, from the beginning of 2000; to sleep moves it; random bytes come from the name of the workunit; folders list
 * their files in order, and a file has a number that follows from its path alone (launcher/native/files.c). Each call counts as
 * HOST_CALL instructions and one for each byte that it moves. Numbers and layouts: the specification of WASI preview 1 (witx).
 */
"use strict";

const OK = 0, BADF = 8, EXIST = 20, FAULT = 21, INVAL = 28, ISDIR = 31, NOENT = 44, NOTDIR = 54, NOTEMPTY = 55, NOTSOCK = 57,
  NOTSUP = 58, PERM = 63, SPIPE = 70;
const UNKNOWN = 0, DIRECTORY = 3, REGULAR = 4;
const CREATE = 1, MUST_BE_DIRECTORY = 2, MUST_BE_NEW = 4, TRUNCATE = 8, APPEND = 1;
const MAY_READ = 2n, NO_READING = 0x4002n, MAY_WRITE = 64n, FILE_RIGHTS = 0x3fffffffn, FOLDER_RIGHTS = 0x3fb7ffbbn,
  TOP_RIGHTS = [0x07b7fe00n, 0x0ff7ffffn];
const START_OF_TIME = 946684800n * 1000000000n;
const HOST_CALL = 1000, MOST_PREAD = 65536, RANDOM_PIECE = 1 << 20; // bytes between two looks for orders
const HIDDEN = /^cobblestone_(time_to_checkpoint$|trickle_up_)/; // what comes and goes at times of our own
const MOST_SUBSCRIPTIONS = 4096, EVENT_BYTES = 32, SUBSCRIPTION_BYTES = 48;
const decoder = new TextDecoder(), encoder = new TextEncoder();

/** The number of a file with a path: FNV-1a of 64 bits. */
function numberOf(path) {
  let number = 0xcbf29ce484222325n;
  for (const byte of encoder.encode(path)) number = BigInt.asUintN(64, (number ^ BigInt(byte)) * 0x100000001b3n);
  return number;
}

/** The path of a name in the folder with this path. */
const below = (path, name) => (path ? `${path}/${name}` : name);

/** Sorts names by their bytes. */
function inOrder([a], [b]) {
  const [first, second] = [encoder.encode(a), encoder.encode(b)];
  const place = first.findIndex((byte, i) => byte !== second[i]);
  return place < 0 ? first.length - second.length : first[place] - (second[place] ?? -1);
}

/** A file: bytes that grow. */
export class File {
  constructor(bytes = new Uint8Array(0)) {
    this.room = bytes;
    this.size = bytes.length;
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
  entries = new Map();

  /** All files below, with their paths. */
  *files(path = "") {
    for (const [name, node] of this.entries) {
      if (node instanceof Folder) yield* node.files(`${path}${name}/`);
      else yield [path + name, node];
    }
  }

  /** The paths of all folders below. */
  *folders(path = "") {
    for (const [name, node] of this.entries) {
      if (!(node instanceof Folder)) continue;
      yield path + name;
      yield* node.folders(`${path}${name}/`);
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
  constructor(seed, drawn = 0) {
    this.block = new Uint8Array(40);
    this.block.set(seed);
    this.drawn = drawn;
  }

  fill(target) {
    for (let i = 0; i < target.length;) {
      const at = this.drawn % 32;
      new DataView(this.block.buffer).setBigUint64(32, BigInt((this.drawn - at) / 32), true);
      const part = sha256(this.block).subarray(at, at + target.length - i);
      target.set(part, i);
      i += part.length;
      this.drawn += part.length;
    }
  }
}

/** What one run sees. `count` tells the instructions so far, and `charge` adds some; `kept` hears of a name in the folder when a file of
 * that name was closed or renamed to it; `wait` returns when the run may go on. */
export class World {
  constructor({folder, words, variables, seed, resume, count, charge, kept, wait}) {
    Object.assign(this, {folder, words, count, charge, kept, wait});
    this.variables = variables.map(([name, value]) => `${name}=${value}`);
    this.stdout = new File(resume?.stdout);
    this.stderr = new File();
    this.files = [
      {stream: null, rights: [MAY_READ, MAY_READ]}, {stream: this.stdout, rights: [MAY_WRITE, MAY_WRITE]},
      {stream: this.stderr, rights: [MAY_WRITE, MAY_WRITE]}, {node: folder, path: "", rights: TOP_RIGHTS},
    ];
    this.free = []; // numbers of files that were closed
    this.slept = BigInt(resume?.slept ?? 0);
    this.random = new RandomBytes(seed, resume?.drawn);
    this.memory = null; // once there is an instance
  }

  /** The functions to import; those that fail in the ordinary way return a number. */
  get imports() {
    const functions = {};
    for (const name of Object.getOwnPropertyNames(Functions.prototype)) {
      if (name === "constructor") continue;
      const call = Functions.prototype[name];
      functions[name] = (...values) => {
        this.moved = 0;
        this.whole = null;
        const problem = this.tried(call, values);
        this.charge(HOST_CALL + (problem ? 0 : this.moved));
        if (this.whole) this.noticed(this.whole);
        return problem;
      };
    }
    return functions;
  }

  /** Call a function; its error number. */
  tried(call, values) {
    try {
      return call.apply(this, values) ?? OK;
    } catch (error) {
      if (error instanceof Problem) return error.number;
      if (error instanceof RangeError && /offset|bounds|length/i.test(error.message)) return FAULT;
      throw error;
    }
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
    if (found.node instanceof Folder) throw new Problem(BADF);
    if (!found.node) throw new Problem(SPIPE);
    return found;
  }

  /** An open file that may be read, or written. */
  openFor(right, number) {
    const found = this.regular(number);
    if (!(found.may & right)) throw new Problem(BADF);
    return found;
  }

  /** Files are always whole. */
  synced(number) {
    if (!this.file(number).node || this.file(number).node instanceof Folder) throw new Problem(BADF);
  }

  forget(number) {
    this.files[number] = undefined;
    this.free = [...this.free, number].sort((a, b) => a - b);
  }

  /** The folder and name that a path means; nothing outside of the folder can be meant. */
  place(number, path) {
    const {node: from, path: base} = this.file(number);
    if (!(from instanceof Folder)) throw new Problem(NOTDIR);
    if (!path) throw new Problem(NOENT);
    if (path.startsWith("/")) throw new Problem(PERM);
    const trail = [from], names = [];
    const parts = path.split("/").filter((part) => part && part !== ".");
    let name = ".";
    for (const [place, part] of parts.entries()) {
      const folder = trail.at(-1);
      if (part === "..") {
        if (trail.length === 1) throw new Problem(PERM);
        trail.pop();
        names.pop();
        name = ".";
        continue;
      }
      name = part;
      if (place === parts.length - 1) break;
      const next = folder.entries.get(part);
      if (!next) throw new Problem(NOENT);
      if (!(next instanceof Folder)) throw new Problem(NOTDIR);
      trail.push(next);
      names.push(part);
      name = ".";
    }
    const folder = trail.at(-1);
    if (name !== ".") names.push(name);
    return {folder, name, path: names.reduce(below, base), node: name === "." ? folder : folder.entries.get(name)};
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

  stat(target, node, path) {
    const view = this.view, kind = node instanceof Folder ? DIRECTORY : node ? REGULAR : UNKNOWN;
    this.at(target, 64).fill(0);
    view.setUint8(target + 16, kind);
    if (!node) return;
    view.setBigUint64(target, 1n, true);
    view.setBigUint64(target + 8, numberOf(path), true);
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

  /** The first buffer of a list that has any bytes: no more are moved at once, as in the native runtime. */
  piece(vectors, count) {
    for (let i = 0; i < count; i++) {
      const view = this.view, size = view.getUint32(vectors + 8 * i + 4, true);
      if (size) return this.at(view.getUint32(vectors + 8 * i, true), size);
    }
    return new Uint8Array(0);
  }

  readAt(file, vectors, count, position, result, most = Infinity) {
    const piece = this.piece(vectors, count).subarray(0, most), bytes = file.bytes.subarray(position, position + piece.length);
    piece.set(bytes);
    return this.has(bytes.length, result);
  }

  writeAt(file, vectors, count, position, result) {
    const piece = this.piece(vectors, count);
    file.write(piece, position);
    return this.has(piece.length, result);
  }

  /** Say how many bytes were moved. */
  has(moved, result) {
    this.view.setUint32(result, moved, true);
    return (this.moved = moved);
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
    const target = this.at(address, size >>> 0);
    for (let at = 0; at < target.length; at += RANDOM_PIECE) {
      this.wait();
      this.random.fill(target.subarray(at, at + RANDOM_PIECE));
    }
    this.moved = target.length;
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
  proc_raise() { return NOTSUP; }
  sched_yield() {}
  sock_accept(number) { return this.file(number) && NOTSOCK; }
  sock_recv(number) { return this.file(number) && NOTSOCK; }
  sock_send(number) { return this.file(number) && NOTSOCK; }
  sock_shutdown(number) { return this.file(number) && NOTSOCK; }

  fd_advise(number) { this.regular(number); }
  fd_allocate(number) { return this.regular(number) && NOTSUP; }
  fd_datasync(number) { this.synced(number); }
  fd_sync(number) { this.synced(number); }
  fd_fdstat_set_rights(number) { return this.file(number) && NOTSUP; }
  fd_filestat_set_times(number) { this.file(number); }

  fd_close(number) {
    const {node} = this.file(number);
    this.forget(number);
    if (node instanceof File) this.whole = node;
  }

  fd_fdstat_get(number, target) {
    const {node, flags = 0, rights} = this.file(number), view = this.view;
    this.at(target, 24).fill(0);
    view.setUint8(target, node instanceof Folder ? DIRECTORY : node ? REGULAR : UNKNOWN);
    view.setUint16(target + 2, flags, true);
    rights.forEach((some, i) => view.setBigUint64(target + 8 + 8 * i, some, true));
  }

  fd_fdstat_set_flags(number, flags) { this.regular(number).flags = flags; }

  fd_filestat_get(number, target) {
    const {node, path} = this.file(number);
    this.stat(target, node, path);
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
    this.readAt(this.openFor(MAY_READ, number).node, vectors, count, Number(offset), result, MOST_PREAD);
  }

  fd_pwrite(number, vectors, count, offset, result) {
    this.writeAt(this.openFor(MAY_WRITE, number).node, vectors, count, Number(offset), result);
  }

  fd_read(number, vectors, count, result) {
    const file = this.file(number);
    if (file.stream !== undefined) return file.stream ? BADF : void this.view.setUint32(result, 0, true);
    file.position += this.readAt(this.openFor(MAY_READ, number).node, vectors, count, file.position, result);
  }

  fd_write(number, vectors, count, result) {
    const file = this.file(number);
    if (file.stream) return void this.writeAt(file.stream, vectors, count, file.stream.size, result);
    if (file.stream === null) return BADF;
    const {node} = this.openFor(MAY_WRITE, number);
    if (file.flags & APPEND) file.position = node.size;
    file.position += this.writeAt(node, vectors, count, file.position, result);
  }

  fd_readdir(number, buffer, size, cookie, result) {
    const file = this.file(number), {node, path} = file;
    if (!(node instanceof Folder)) return BADF;
    if (!cookie || !file.entries) {
      const shown = [...node.entries].filter(([name]) => path || !HIDDEN.test(name)).sort(inOrder);
      file.entries = [[".", node, path], ["..", node, path], ...shown.map(([name, each]) => [name, each, below(path, name)])];
    }
    const target = this.at(buffer, size >>> 0);
    let used = 0;
    for (let place = Number(cookie); place < file.entries.length && used < target.length; place++) {
      const [name, each, whole] = file.entries[place], bytes = encoder.encode(name);
      const entry = new Uint8Array(24 + bytes.length), view = new DataView(entry.buffer);
      view.setBigUint64(0, BigInt(place + 1), true);
      view.setBigUint64(8, numberOf(whole), true);
      view.setUint32(16, bytes.length, true);
      view.setUint8(20, each instanceof Folder ? DIRECTORY : REGULAR);
      entry.set(bytes, 24);
      const part = entry.subarray(0, target.length - used);
      target.set(part, used);
      used += part.length;
    }
    this.has(used, result);
  }

  fd_renumber(from, to) {
    this.file(to);
    this.files[to] = this.file(from);
    if (from !== to) this.forget(from);
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
    const found = this.existing(number, this.text(path, size));
    this.stat(target, found.node, found.path);
  }

  path_filestat_set_times(number, _flags, path, size) { this.existing(number, this.text(path, size)); }
  path_link() { return NOTSUP; }
  path_symlink() { return NOTSUP; }

  path_readlink(number, path, size) {
    this.existing(number, this.text(path, size));
    return INVAL;
  }

  path_open(number, _lookup, path, size, how, may, _inheriting, flags, result) {
    if (how & CREATE && how & MUST_BE_DIRECTORY) return INVAL;
    if (how & (CREATE | TRUNCATE)) may |= MAY_WRITE;
    const found = this.place(number, this.text(path, size));
    let {node} = found;
    if (node && how & CREATE && how & MUST_BE_NEW) return EXIST;
    if (!node && !(how & CREATE)) return NOENT;
    if (how & MUST_BE_DIRECTORY && !(node instanceof Folder)) return NOTDIR;
    if (node instanceof Folder && (how & (CREATE | TRUNCATE) || may & MAY_WRITE)) return ISDIR;
    if (!node) found.folder.entries.set(found.name, (node = new File()));
    else if (how & TRUNCATE) node.resize(0);
    const place = this.free.pop() ?? this.files.length;
    const without = (may & MAY_READ ? 0n : NO_READING) | (may & MAY_WRITE ? 0n : MAY_WRITE);
    const rights = node instanceof Folder ? FOLDER_RIGHTS : FILE_RIGHTS & ~without;
    this.files[place] = {node, path: found.path, may, rights: [rights, rights], position: 0, flags};
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
    if (old.node instanceof File) this.whole = old.node;
  }

  path_unlink_file(number, path, size) {
    const {folder, name, node} = this.existing(number, this.text(path, size));
    if (node instanceof Folder) return ISDIR;
    folder.entries.delete(name);
  }
}

/** SHA-256 (FIPS 180-4), of which browsers have only one that has to be waited for. */
export function sha256(bytes) {
  const words = new Int32Array(64), state = Int32Array.from(ROOTS);
  const padded = new Uint8Array(((bytes.length + 72) >> 6) << 6), view = new DataView(padded.buffer);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  view.setBigUint64(padded.length - 8, BigInt(bytes.length) * 8n);
  for (let at = 0; at < padded.length; at += 64) addBlock(state, words, view, at);
  const digest = new DataView(new ArrayBuffer(32));
  state.forEach((word, i) => digest.setInt32(4 * i, word));
  return new Uint8Array(digest.buffer);
}

const rotate = (value, count) => (value >>> count) | (value << (32 - count));

function addBlock(state, words, view, at) {
  for (let i = 0; i < 16; i++) words[i] = view.getInt32(at + 4 * i);
  for (let i = 16; i < 64; i++) {
    const x = words[i - 15], y = words[i - 2];
    words[i] = words[i - 16] + (rotate(x, 7) ^ rotate(x, 18) ^ (x >>> 3)) + words[i - 7] + (rotate(y, 17) ^ rotate(y, 19) ^ (y >>> 10));
  }
  let a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
  for (let i = 0; i < 64; i++) {
    const first = (h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + CONSTANTS[i] + words[i]) | 0;
    const second = ((rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + first) | 0;
    d = c;
    c = b;
    b = a;
    a = (first + second) | 0;
  }
  state.set([state[0] + a, state[1] + b, state[2] + c, state[3] + d, state[4] + e, state[5] + f, state[6] + g, state[7] + h]);
}

/* The first 32 bits of the fractions of roots of the first primes: of square roots the state, of cube roots the constants. */
const PRIMES = Array.from({length: 312}, (_, n) => n).filter((n) => n > 1 && !Array.from({length: n - 2}, (_, d) => d + 2).some((d) => n % d === 0));
const fraction = (root) => Math.floor((root - Math.floor(root)) * 2 ** 32);
const ROOTS = Int32Array.from(PRIMES.slice(0, 8), (prime) => fraction(Math.sqrt(prime)));
const CONSTANTS = Int32Array.from(PRIMES.slice(0, 64), (prime) => fraction(Math.cbrt(prime)));
