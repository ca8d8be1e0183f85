// Hashes the chosen files, sends those that the project lacks, and gives the form their names and hashes.  The files are kept in
// the browser's own storage until then, so that a page that is loaded again goes on.  Without it the form itself carries the files.
"use strict";

const form = document.getElementById("new-batch") ?? document.getElementById("submit-batch");
const picker = form.elements.inputs;
const part = (name) => form.querySelector(`[data-part="${name}"]`);
const MOST = Number(form.dataset.most), AT_A_TIME = 3, ASK_AT_ONCE = 1000, PAUSE_MS = 2000;
const pause = () => new Promise((done) => setTimeout(done, PAUSE_MS));
let files = []; // {name, file, sha256?}
let round = 0; // counts choices: what belongs to an earlier one stops
let working = Promise.resolve(true); // whether all files are on the server

function say(name, values = {}, more = "") {
  let text = name && form.querySelector(`[data-say="${name}"]`).textContent;
  for (const [key, value] of Object.entries(values)) text = text.replace(`{${key}}`, value);
  part("status").textContent = `${text} ${more}`.trim();
}

function show(name, done, all) {
  say(name, { done, all });
  part("bar").hidden = false;
  part("bar").max = all;
  part("bar").value = done;
}

/** Read or write the chosen files in the browser's storage; undefined where it has none. */
function shelf(mode, act) {
  return new Promise((done) => {
    try {
      const opening = indexedDB.open("cobblestone-new-batch", 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore("files");
      opening.onerror = () => done();
      opening.onsuccess = () => {
        const acting = opening.result.transaction("files", mode), request = act(acting.objectStore("files"));
        acting.oncomplete = () => done(request.result);
        acting.onabort = () => done();
      };
    } catch {
      done();
    }
  });
}

/** Ask the server, again and again while it cannot be reached. */
async function ask(address, options, own) {
  while (own === round) {
    try {
      const answer = await fetch(address, { ...options, headers: { "X-Form-Token": form.dataset.token } });
      if (answer.redirected) location.reload(); // to the log-in form, and back here
      else if (answer.ok && answer.headers.get("content-type").includes("json")) return await answer.json();
      else if (answer.status < 500 && answer.status !== 429) {
        const problem = await answer.json().catch(() => ({ error: { message: answer.status } }));
        throw Object.assign(new Error(problem.error?.message ?? answer.status), { refused: true });
      }
    } catch (error) {
      if (error.refused) throw error;
    }
    say("again");
    await pause();
  }
  throw new Error("other files were chosen");
}

async function hash(each) {
  if (each.file.size > MOST) throw Object.assign(new Error(each.name), { said: "large" });
  try {
    const digest = await crypto.subtle.digest("SHA-256", await each.file.arrayBuffer());
    each.sha256 = [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  } catch {
    throw Object.assign(new Error(each.name), { said: "unread" });
  }
}

/** Bring all files to the server; return whether that went well. */
async function upload(own) {
  try {
    for (const [place, each] of files.entries()) {
      if (own !== round) return false;
      if (!each.sha256) await hash(each);
      show("hashing", place + 1, files.length);
    }
    const missing = new Map(), by_name = new Map(files.map((each) => [`jf_${each.sha256}`, each]));
    const names = [...by_name.keys()];
    for (let from = 0; from < names.length; from += ASK_AT_ONCE) {
      const body = JSON.stringify({ names: names.slice(from, from + ASK_AT_ONCE) });
      for (const name of (await ask("my_files.php", { method: "POST", body }, own)).missing) missing.set(name, by_name.get(name));
    }
    let done = 0;
    const waiting = [...missing.values()];
    const send = async () => {
      for (let each = waiting.shift(); each; each = waiting.shift()) {
        await ask(`my_file.php?sha256=${each.sha256}`, { method: "PUT", body: each.file }, own);
        show("sending", ++done, missing.size);
      }
    };
    await Promise.all(Array.from({ length: AT_A_TIME }, send));
    if (own !== round) return false;
    say("ready", { all: files.length });
    part("bar").hidden = true;
    return true;
  } catch (error) {
    if (own === round) say(error.said ?? "refused", {}, error.message);
    return false;
  }
}

function take(chosen) {
  files = chosen;
  round += 1;
  picker.value = "";
  part("forget").hidden = !files.length;
  part("bar").hidden = true;
  say("");
  working = files.length ? upload(round) : Promise.resolve(true);
}

function choose(list) {
  const more = [...list].map((file) => ({ name: file.webkitRelativePath || file.name, file }));
  if (!more.length) return;
  const key = ({ name, file }) => `${file.size} ${file.lastModified} ${name}`; // a file that is chosen again counts once
  take([...new Map([...files, ...more].map((each) => [key(each), each])).values()]);
  shelf("readwrite", (kept) => kept.put(files.map(({ name, file }) => ({ name, file })), form.dataset.app));
}

const forget = () => shelf("readwrite", (kept) => kept.delete(form.dataset.app));

async function submit(event) {
  event.preventDefault();
  const button = form.querySelector("[type=submit]");
  if (button.disabled) return; // it is on its way
  button.disabled = true;
  if (!(await working)) working = upload(++round);
  if (await working) {
    form.elements.files.value = JSON.stringify({ files: files.map(({ name, sha256 }) => ({ name, sha256 })) });
    form.submit();
  }
  button.disabled = false;
}

if (form.id === "submit-batch") {
  form.addEventListener("submit", forget); // the next batch begins without these files
} else if (crypto.subtle) { // it is missing on plain HTTP, where the form works as it does without scripts
  part("drop").hidden = false;
  picker.addEventListener("change", () => choose(picker.files));
  choose(picker.files); // those that were chosen before this ran, on a slow line
  for (const name of ["dragover", "drop"])
    form.addEventListener(name, (event) => {
      if (event.target === form.elements.table) return; // takes its file by itself
      event.preventDefault();
      if (name === "drop") choose(event.dataTransfer.files);
    });
  part("forget").addEventListener("click", () => {
    forget();
    take([]);
  });
  form.addEventListener("submit", submit);
  shelf("readonly", (kept) => kept.get(form.dataset.app)).then((kept) => kept?.length && !files.length && take(kept));
}
