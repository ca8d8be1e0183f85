/* What is said of a job: the description of its app, the job's options, and the ends that the launcher has names for.
 *
 * The form is that of launcher/native/launcher.c.
 */
export const TRAP = 134, DISK_BOUND = 196, INSTRUCTIONS_BOUND = 197, BAD_DESCRIPTION = 206, OUTPUT_MISSING = 208;
export const PROGRESS = "cobblestone_progress", MAKES_CHECKPOINTS = "cobblestone_checkpoints", CHECKPOINT = "cobblestone_checkpoint",
  TIME_TO_CHECKPOINT = "cobblestone_time_to_checkpoint";
/** Places of the orders in the memory that a page shares with its threads. */
export const SUSPENDED = 0, CHECKPOINT_WANTED = 1;
export const TOLD_MS = 400, STDERR_TAIL = 50_000;

/** The job ends with a status of ours. */
export class Ended extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

export const refuse = (words) => new Ended(BAD_DESCRIPTION, words);
const decoder = new TextDecoder();
const decoded = (text) => decodeURIComponent(text.replace(/%(?![0-9a-fA-F]{2})/g, "%25"));

export function readDescription(text) {
  const about = {words: [], files: [], optional: [], variables: [], stdout: null, checkpoint: 50_000_000_000n};
  for (const line of text.split("\n").filter(Boolean)) {
    const [, key, value] = /^(\S+) (.*)$/.exec(line) ?? [null, line, ""];
    if (key === "word") about.words.push(decoded(value));
    else if (key === "file") about.files.push(decoded(value.split(" ")[0]));
    else if (key === "optional") about.optional.push(decoded(value));
    else if (key === "set") about.variables.push([decoded(value.split("=")[0]), decoded(value.split("=").slice(1).join("="))]);
    else if (key === "checkpoint") about.checkpoint = BigInt(value);
    else if (key === "stdout") about.stdout = decoded(value);
    else if (!["library", "module", "native"].includes(key)) throw refuse(`unknown or incomplete entry ${key.slice(0, 60)}`);
  }
  return about;
}

export function readOptions(commandLine) {
  const options = {input: new Map(), output: new Map(), arg: new Map()};
  const words = commandLine.match(/\S+/g) ?? [];
  for (let i = 0; i < words.length; i += 2) {
    const kind = options[words[i].replace(/^--/, "")], [, name, value] = /^([^=]+)=(.*)$/.exec(words[i + 1] ?? "") ?? [];
    if (!kind || name === undefined) throw refuse(`unknown option ${words[i].slice(0, 60)}`);
    kind.set(name, decoded(value));
  }
  return options;
}

/** Put the job's values for the placeholders of one word. */
export function expand(word, options, period) {
  return word.replace(/\{\{|\}\}|\{([^}]*)\}/g, (whole, inside) => {
    if (inside === undefined) return whole[0];
    const [kind, ...rest] = inside.split(":"), named = inside.includes(":"), list = options[kind];
    const value = list ? (named ? list.get(rest.join(":")) : list.values().next().value)
      : inside === "ncpus" ? "1" : inside === "checkpoint_period" ? String(period) : undefined;
    if (value === undefined) throw refuse(`the command uses {${inside}}, which this job does not have`);
    return value;
  });
}

/** The words of a command, with the job's values. */
export const expanded = (about, options, period) => about.words.flatMap((word) =>
  word === "{inputs}" ? [...options.input.values()] : [expand(word, options, period)]);

/** The names of the files that a job begins with. */
export const given = (about, options) => [...about.files, ...options.input.values()];

/** The outputs in the order of the job's; null if one is missing, which `lines` then says. `read` gives the bytes of a file or null. */
export function collected(job, about, options, read, lines) {
  const before = lines.length;
  const outputs = job.outputs.map(({open_name: name, optional}) => {
    const bytes = read(name), option = [...options.output].find(([, path]) => path === name)?.[0];
    if (!bytes && !optional && !about.optional.includes(name) && !about.optional.includes(option))
      lines.push(`the program ended with exit status 0 but did not write its output ${name}`);
    return bytes;
  });
  return lines.length > before ? null : outputs;
}

/** What a thread says at the end of a job; `said` are the bytes of its error output. */
export function ending(status, outputs, said, lines, more) {
  const text = decoder.decode(said.slice(-STDERR_TAIL));
  const stderr = `${text}${text && !text.endsWith("\n") ? "\n" : ""}${lines.map((line) => `cobblestone: ${line}\n`).join("")}`;
  return {kind: "done", status, outputs, stderr, seconds: 0, instructions: "0", ...more};
}
