// The page of the studio. It shows what the server answers; every figure is computed there.

import { ask as request } from "./door.js";

const $ = (id) => document.getElementById(id);
const JOBS = { fit: "Making the model", symbols: "Learning symbols", trace: "Tracing what more privacy would cost", refine: "Looking for the best plan", audit: "Attacking the plan" };
const ROLES = [["", "not used"], ["reading", "a reading"], ["public", "public: may be known"], ["private", "private: must not be"], ["time", "the time"], ["blocks", "which rows belong together (for symbols)"]];

let shown = null; // the view on the screen
let version = -1;
let place = "welcome"; // which page is seen: welcome, columns, desk or symbols
let seenTable = 0; // numbers of the table and the network that were last put on the table
let seenLoaded = 0;
let seenSymbols = 0;
let wanted = null; // the question to ask next: while one is on its way only the last one counts
let underway = null; // the question that is on its way
let asking = false;
let settled = 0; // timer: a better search begins when dragging has ended

// --- talking to the server

async function call(address, options = {}) {
  const response = await request(address, options);
  const text = await response.text();
  let answer;
  try { answer = JSON.parse(text); } catch { answer = { error: text || `the studio answered ${response.status}` }; }
  if (!response.ok) throw new Error(answer.error || `the studio answered ${response.status}`);
  return answer;
}

const post = (address, given = {}) =>
  call(address, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(given) });

async function attempt(work) {
  try {
    const view = await work();
    trouble("");
    if (view) show(view);
    return true;
  } catch (error) {
    trouble(error.message);
    return false;
  }
}

function trouble(words) {
  $("trouble").textContent = words;
  $("trouble").hidden = !words;
}

// --- opening

// What is too large is said before it is sent: a server that refuses half-way cannot.
async function send(address, file) {
  if (file.size > shown.most_bytes) throw new Error(`${file.name}: a file may have at most ${shown.most_bytes / 1e6} MB here`);
  return call(`${address}?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file });
}

function open(file) {
  const isNetwork = /\.(toml|json|npz|mat)$/i.test(file.name);
  return attempt(() => send(isNetwork ? "api/network" : "api/table", file));
}

function go(where) {
  place = where;
  for (const each of ["welcome", "columns", "desk", "symbols"]) $(each).hidden = each !== place;
  $("another").hidden = place === "welcome";
  if (place === "welcome") $("opened").textContent = "";
}

// --- showing

// A page is left only for something that was opened since: never because a figure on another one has changed.
function show(view) {
  if (view.version < version) return; // overtaken on its way by the answer to a later question
  version = view.version;
  shown = view;
  if (view.table && view.table.number > seenTable) {
    seenTable = view.table.number;
    showColumns(view.table);
    go("columns");
  }
  if (view.loaded && view.loaded.number > seenLoaded) {
    seenLoaded = view.loaded.number;
    go("desk");
  }
  if (view.symbols && view.symbols.number > seenSymbols) {
    seenSymbols = view.symbols.number;
    go("symbols");
  }
  if (view.loaded) showDesk(view.loaded);
  if (view.symbols) showSymbols(view.symbols);
  if (place === "columns") $("opened").textContent = view.table.name;
  showJobs(view.jobs);
}

function showColumns(table) {
  const guess = guessRoles(table.columns);
  const rows = table.columns.map((name, place) => {
    const row = document.createElement("tr");
    const head = Object.assign(document.createElement("th"), { scope: "row", textContent: name });
    const first = document.createElement("td");
    first.textContent = table.first.slice(0, 3).map((each) => each[place]).join(", ");
    const role = document.createElement("select");
    role.setAttribute("aria-label", `What is ${name}?`);
    for (const [value, words] of ROLES) role.append(new Option(words, value));
    const agent = Object.assign(document.createElement("input"), { type: "text", value: guess[place].agent });
    agent.setAttribute("aria-label", `Agent that reads ${name}`);
    role.addEventListener("change", () => { agent.hidden = role.value !== "reading"; });
    row.dataset.column = name;
    row.append(head, first, cell(role), cell(agent));
    setRole(row, guess[place].role);
    return row;
  });
  $("roles").replaceChildren(...rows);
}

function setRole(row, role) {
  row.querySelector("select").value = role;
  row.querySelector("input").hidden = role !== "reading";
}

// An agent is what several names begin with (torso_x, torso_y) or end in (T_hall, CO2_hall): whichever keeps its columns together, or makes more agents.
function guessRoles(names) {
  const parts = names.map((name) => name.split(/[_. ]/).filter(Boolean));
  const [begin, end] = [(each) => each[0], (each) => each.at(-1)].map((pick) => {
    const found = parts.filter((each) => each.length > 1).map(pick);
    const words = [...new Set(found)].filter((word) => found.indexOf(word) !== found.lastIndexOf(word));
    return { pick, words, runs: found.filter((word, k) => word !== found[k - 1]).length };
  });
  const { pick, words } = end.runs < begin.runs || (end.runs === begin.runs && end.words.length > begin.words.length) ? end : begin;
  return names.map((name, place) => {
    const word = parts[place].length > 1 ? pick(parts[place]) : "";
    if (/^(date|time|timestamp|datetime|when)$/i.test(name)) return { role: "time", agent: name };
    return words.includes(word) ? { role: "reading", agent: word } : { role: "", agent: parts[place][0] || name };
  });
}

function cell(...children) {
  const made = document.createElement("td");
  made.append(...children);
  return made;
}

function roles() {
  const given = { agents: {}, public: [], private: [] };
  for (const row of $("roles").children) {
    const name = row.dataset.column;
    const role = row.querySelector("select").value;
    if (role === "reading") (given.agents[row.querySelector("input").value.trim() || name] ??= []).push(name);
    if (role === "public" || role === "private") given[role].push(name);
    if (role === "time" || role === "blocks") given[role] = name;
  }
  return given;
}

function showSymbols(symbols) {
  if (place === "symbols") $("opened").textContent = symbols.name;
  text("symbols-headline", symbols.headline);
  text("symbols-lead", symbols.lead);
  text("symbols-command", symbols.command);
  for (const part of ["curve", "known", "says", "rows", "certificate"]) html(`symbols-${part}`, symbols.html[part]);
  const key = JSON.stringify([symbols.number, symbols.plans]);
  if ($("symbols-plans").dataset.key !== key) {
    $("symbols-plans").dataset.key = key;
    $("symbols-plans").replaceChildren(...symbols.plans.map((words, plan) => {
      const label = Object.assign(document.createElement("label"), { className: "choice" });
      const button = Object.assign(document.createElement("input"), { type: "radio", name: "symbols-plan", value: plan });
      button.addEventListener("change", () => attempt(() => post("api/choose", { plan })));
      label.append(button, ` ${words}`);
      return label;
    }));
  }
  $("symbols-plans").querySelectorAll("input")[symbols.chosen].checked = true;
}

function showDesk(loaded) {
  if (place === "desk") $("opened").textContent = loaded.name;
  text("headline", loaded.headline);
  text("free", loaded.free);
  text("command", loaded.command);
  html("errors", loaded.html.errors);
  html("frontier", loaded.html.frontier);
  html("agents", loaded.html.agents);
  html("verdict", loaded.html.verdict);
  html("doubts", loaded.html.doubts);
  html("what-if", loaded.html.what_if);
  html("audit", loaded.html.audit);
  showSliders(loaded);
  showAgents(loaded);
  showNetwork(loaded.network);
  showAudit(loaded.audit);
}

function text(id, words) {
  if ($(id).textContent !== words) $(id).textContent = words;
}

function html(id, markup) {
  // Names are escaped where the markup is made, on the server.
  if ($(id).dataset.shown === markup) return;
  const unfolded = [...$(id).querySelectorAll("details[open] > summary")].map((each) => each.textContent);
  $(id).innerHTML = markup;
  $(id).dataset.shown = markup;
  for (const summary of $(id).querySelectorAll("details > summary")) {
    if (unfolded.includes(summary.textContent)) summary.parentElement.open = true;
  }
}

// Sliders run from 0 to 1000. The public one is finer near "nothing lost"; the private ones run in equal ratios.
const publicFold = (place, most) => 1 + (most - 1) * (place / 1000) ** 2;
const publicPlace = (fold, most) => (most > 1 ? 1000 * Math.sqrt(Math.min(1, (fold - 1) / (most - 1))) : 0);
// Those of secrets run from the AUC that is free down to nearly guessing.
const privateFold = (place, { auc, free, most }) => (auc ? free + (place / 1000) * (most - free) : free * (most / free) ** (place / 1000));
function privatePlace({ auc, fold, free, most }) {
  if (auc) return free > most ? (1000 * (free - Math.min(fold, free))) / (free - most) : 1000;
  return most > free ? (1000 * Math.log(Math.max(fold, free) / free)) / Math.log(most / free) : 1000;
}

function showSliders(loaded) {
  const resting = (input) => (document.activeElement !== input || !asking) && !loaded.searching && !settled;
  const slider = $("public");
  if (resting(slider)) slider.value = publicPlace(loaded.public.fold, loaded.public.most);
  const each = Object.keys(loaded.public.raw).map((name) => `${name} ${loaded.public.sent[name]} (raw ${loaded.public.raw[name]})`);
  describe($("public-words"), slider, `${each.join("; ")}: ${loaded.public.grown}`);
  if ($("private").dataset.labels !== JSON.stringify(loaded.private.map((p) => p.label))) makePrivate(loaded);
  loaded.private.forEach((parameter, place) => {
    const input = $(`private-${place}`);
    input.disabled = parameter.always_free;
    if (resting(input)) input.value = privatePlace(parameter);
    const words = parameter.unlimited ? "cannot be estimated at all" : parameter.words;
    describe($(`private-words-${place}`), input, parameter.always_free ? `${words}: free, as much as one likes` : words);
  });
  showChoices(loaded);
  text("by-search", loaded.by_search);
  $("by-search").hidden = !loaded.by_search;
}

// A box stays as the hand left it until its question is answered: the answer to an earlier one knows nothing of it.
function showChoices(loaded) {
  if (asking || wanted) return;
  for (const box of document.querySelectorAll("#private input[data-kind]")) {
    box.checked = loaded.asked[box.dataset.kind].includes(loaded.private[box.dataset.place].name);
  }
}

function describe(output, input, words) {
  if (output.textContent !== words) output.textContent = words;
  input.setAttribute("aria-valuetext", words);
}

function makePrivate(loaded) {
  $("private").dataset.labels = JSON.stringify(loaded.private.map((p) => p.label));
  $("private").replaceChildren(...loaded.private.map((parameter, place) => {
    const box = Object.assign(document.createElement("div"), { className: "slider private" });
    const label = Object.assign(document.createElement("label"), { htmlFor: `private-${place}` });
    label.textContent = parameter.label;
    const input = Object.assign(document.createElement("input"), { type: "range", id: `private-${place}`, min: 0, max: 1000, step: 1 });
    input.addEventListener("input", () => ask({ privacy: privacies(place) }));
    const output = Object.assign(document.createElement("output"), { id: `private-words-${place}` });
    output.htmlFor = input.id;
    box.append(label, input, output);
    const more = moreOf(parameter, place, loaded.private.length);
    if (more) box.append(more);
    return box;
  }));
}

// What can be said of one private parameter beside its slider.
function moreOf(parameter, place, count) {
  const choices = [];
  if (parameter.several) choices.push(["worst", "Ask it of every direction", "It is several numbers. The slider asks for their mean; with this, for each combination of them. A search answers."]);
  if (parameter.kept && count > 1) choices.push(["give_up", "Give up what is free", "It may then be hidden less than it is for free, where that makes something else cheaper."]);
  if (!choices.length) return null;
  const fold = document.createElement("details");
  fold.append(Object.assign(document.createElement("summary"), { textContent: `More on ${shorten(parameter.name)}` }));
  for (const [kind, words, meaning] of choices) {
    const label = Object.assign(document.createElement("label"), { className: "choice" });
    const box = Object.assign(document.createElement("input"), { type: "checkbox" });
    Object.assign(box.dataset, { kind, place });
    box.addEventListener("change", () => ask(again()));
    label.append(box, ` ${words}`);
    fold.append(label, Object.assign(document.createElement("p"), { className: "soft", textContent: meaning }));
  }
  return fold;
}

const chosenOf = (kind) => [...document.querySelectorAll(`#private input[data-kind=${kind}]:checked`)].map((box) => shown.loaded.private[box.dataset.place].name);

// The last question, also where its answer is still to come.
function lastAsked() {
  const question = wanted ?? underway;
  return question ? { privacy: question.privacy ?? {}, loss: question.loss ?? null } : shown.loaded.asked;
}

// What was asked before, once more; where a parameter is asked more of in every direction, what it has now.
function again() {
  const { privacy, loss } = lastAsked();
  if (loss !== null) return { loss };
  const wanted = { ...privacy };
  for (const name of chosenOf("worst")) {
    const parameter = shown.loaded.private.find((p) => p.name === name);
    wanted[name] ??= Number((parameter.fold ** 2 - 1).toPrecision(4));
  }
  return { privacy: wanted };
}

const shorten = (name) => (name.length > 60 ? `${name.slice(0, 59)}…` : name);

// What is asked of the parameters: of the one that is dragged where its slider stands, of the others what they were asked before.
function privacies(dragged) {
  const parameter = shown.loaded.private[dragged];
  const fold = privateFold(Number($(`private-${dragged}`).value), parameter);
  return { ...lastAsked().privacy, [parameter.name]: parameter.auc ? Number(fold.toFixed(3)) : Number((fold * fold - 1).toPrecision(4)) };
}

// A question that a search answers is asked when the hand rests: every one would end the search for the one before.
const REST = 400;
function ask(question) {
  const chosen = { worst: chosenOf("worst"), give_up: chosenOf("give_up") };
  wanted = { ...question, ...chosen };
  clearTimeout(settled);
  settled = 0;
  const searched = !shown.loaded.quick || ("privacy" in question && chosen.worst.some((name) => question.privacy[name] > 0));
  if (searched) settled = setTimeout(() => { settled = 0; if (!asking) next(); }, REST);
  else if (!asking) next();
}

async function next() {
  asking = true;
  while (wanted) {
    underway = wanted;
    wanted = null;
    await attempt(() => post("api/ask", underway));
  }
  underway = null;
  asking = false;
  showChoices(shown.loaded);
  if (shown.loaded && !shown.loaded.refined && !shown.loaded.searching) {
    settled = setTimeout(() => { settled = 0; attempt(() => post("api/refine")); }, REST);
  }
}

function showNetwork(network) {
  text("network-words", `${network.words}.`);
  const input = $("model-error");
  if (document.activeElement !== input) input.value = Number((100 * network.model_error).toPrecision(4));
  input.disabled = Boolean(network.why_not);
  text("model-error-note", network.why_not || "Every entry of H may be wrong by so much. The plan is then the best on average over such models, and its figures count the doubt as noise.");
}

// --- the audit

function showAudit(choices) {
  const key = JSON.stringify(choices);
  if ($("audit-rows").dataset.key !== key) {
    const before = rowsChosen();
    const given = choices.find((choice) => choice.table);
    const fresh = given && !$("audit-rows").dataset.key?.includes(JSON.stringify(given));
    $("audit-rows").dataset.key = key;
    $("audit-rows").replaceChildren(...choices.map((choice) => {
      const label = Object.assign(document.createElement("label"), { className: "choice" });
      const button = Object.assign(document.createElement("input"), { type: "radio", name: "rows", value: choice.rows });
      button.disabled = choice.table === null;
      button.checked = choice.rows === (fresh ? "held out" : before);
      button.addEventListener("change", tellRows);
      label.append(button, ` ${shorten(choice.label)}${choice.table ? `: ${shorten(choice.table)}` : ""}`);
      return label;
    }));
    if (!$("audit-rows").querySelector("input:checked")) $("audit-rows").querySelector("input").checked = true;
  }
  tellRows();
}

const rowsChosen = () => $("audit-rows").querySelector("input:checked")?.value || "simulated";

function tellRows() {
  const choice = shown.loaded.audit.find((each) => each.rows === rowsChosen());
  text("audit-note", choice.note);
  text("audit-command", choice.command);
}

function holdOut(file) {
  return attempt(() => send("api/held-out", file));
}

function showAgents(loaded) {
  const key = JSON.stringify([loaded.number, loaded.agents]);
  if ($("agents-if").dataset.key === key) return;
  $("agents-if").dataset.key = key;
  const few = loaded.agents.slice(0, 40);
  $("agents-if").replaceChildren(...few.map((agent) => {
    const row = Object.assign(document.createElement("div"), { className: "if" });
    row.append(Object.assign(document.createElement("span"), { textContent: shorten(agent.name) }));
    for (const [kind, words] of [["silent", "silent"], ["betrayed", "to the attacker"]]) {
      const label = document.createElement("label");
      const box = Object.assign(document.createElement("input"), { type: "checkbox", value: agent.name });
      box.dataset.kind = kind;
      box.checked = loaded[kind].includes(agent.name); // a page that is loaded anew
      box.setAttribute("aria-label", `${agent.name}: ${words}`);
      box.addEventListener("change", () => attempt(() => post("api/what-if", { silent: chosen("silent"), betrayed: chosen("betrayed") })));
      label.append(box, ` ${words}`);
      row.append(label);
    }
    return row;
  }));
  if (loaded.agents.length > few.length) {
    $("agents-if").append(Object.assign(document.createElement("p"), { className: "soft", textContent: `The first ${few.length} of ${loaded.agents.length} agents.` }));
  }
}

const chosen = (kind) => [...document.querySelectorAll(`#agents-if input[data-kind=${kind}]:checked`)].map((box) => box.value);

// --- jobs

function showJobs(jobs) {
  const running = Object.entries(jobs).filter(([, job]) => job.state === "running");
  text("working", working(running.some(([name]) => name === "refine")));
  $("audit-now").disabled = running.some(([name]) => name === "audit");
  const boxes = running.map(([name, job]) => {
    const box = document.querySelector(`.job[data-job=${name}]`) || makeJob(name);
    box.querySelector("progress").value = job.part;
    return box;
  });
  for (const old of document.querySelectorAll(".job")) if (!boxes.includes(old)) old.remove();
  for (const box of boxes) if (!box.isConnected) $("jobs").append(box);
  for (const [name, job] of Object.entries(jobs)) {
    if (job.state === "failed" && reported[name] !== job.error) {
      reported[name] = job.error;
      trouble(`${JOBS[name]}: ${job.error}`);
    }
    if (job.state === "running") delete reported[name];
  }
}
const reported = {};

// What the figures are, while they are not the last word.
function working(searching) {
  const loaded = shown?.loaded;
  if (!loaded) return "";
  if (loaded.searching && searching) return "A search for what you ask has begun. Until it ends, every figure is still the plan's from before.";
  if (loaded.refined) return "";
  const bound = loaded.asked.loss === null ? "what it costs is an upper bound" : "the privacy it reaches is a lower bound";
  return `A first plan: it keeps what it promises, and ${bound}. ${searching || settled || asking ? "A better one is being looked for." : "The search for a better one was ended; drag to begin anew."}`;
}

function makeJob(name) {
  const box = Object.assign(document.createElement("div"), { className: "job" });
  box.dataset.job = name;
  const label = Object.assign(document.createElement("label"), { htmlFor: `job-${name}`, textContent: JOBS[name] });
  const bar = Object.assign(document.createElement("progress"), { id: `job-${name}`, max: 1, value: 0 });
  const stop = Object.assign(document.createElement("button"), { type: "button", textContent: "Cancel" });
  stop.setAttribute("aria-label", `Cancel: ${JOBS[name]}`);
  stop.addEventListener("click", () => attempt(() => post("api/cancel", { job: name })));
  box.append(label, bar, stop);
  return box;
}

let traced = "";
async function watch() {
  try {
    const answer = await call("api/jobs");
    const states = JSON.stringify(Object.entries(answer.jobs).map(([name, job]) => [name, job.state]));
    if (!asking && (answer.version !== version || states !== traced)) {
      traced = states;
      show(await call("api/view"));
    } else {
      showJobs(answer.jobs);
    }
  } catch {
    trouble("The studio does not answer any more. It was ended, perhaps; start it again with veilnet studio.");
  }
  setTimeout(watch, 500);
}

// --- what people do

// A link cannot carry a header: what it leads to is fetched, and handed on as a file.
for (const link of document.querySelectorAll("a[download]")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    attempt(async () => {
      const response = await request(link.getAttribute("href"));
      if (!response.ok) throw new Error(await response.text());
      const file = document.createElement("a");
      file.href = URL.createObjectURL(await response.blob());
      file.download = /filename="([^"]+)"/.exec(response.headers.get("content-disposition"))[1];
      file.click();
      setTimeout(() => URL.revokeObjectURL(file.href), 60_000);
    });
  });
}
$("house").addEventListener("click", () => attempt(() => post("api/example")));
$("house-stream").addEventListener("click", () => attempt(() => post("api/example?stream=true")));
$("file").addEventListener("change", () => { if ($("file").files[0]) open($("file").files[0]); $("file").value = ""; });
$("paste").addEventListener("click", () => attempt(() => call("api/network?name=pasted", { method: "POST", body: $("pasted").value })));
$("another").addEventListener("click", () => go("welcome"));
$("fit").addEventListener("click", () => attempt(() => post("api/fit", roles())));
$("learn").addEventListener("click", () => attempt(() => post("api/symbols", roles())));
$("match-role").append(...ROLES.map(([value, words]) => new Option(words, value)));
$("match-set").addEventListener("click", () => {
  for (const row of $("roles").children) {
    if (!row.dataset.column.includes($("match").value)) continue;
    setRole(row, $("match-role").value);
    row.querySelector("input").value = $("match-agent").value.trim() || row.querySelector("input").value;
  }
});
$("audit-now").addEventListener("click", () => attempt(() => post("api/audit", { rows: rowsChosen() })));
$("held-out").addEventListener("change", () => { if ($("held-out").files[0]) holdOut($("held-out").files[0]); $("held-out").value = ""; });
$("model-error").addEventListener("change", () => attempt(() => post("api/model", { model_error: Number($("model-error").value) / 100 })));
$("take-free").addEventListener("click", () => {
  for (const box of document.querySelectorAll("#private input[type=checkbox]")) box.checked = false;
  ask({});
});
$("public").addEventListener("input", () => {
  const fold = publicFold(Number($("public").value), shown.loaded.public.most);
  ask({ loss: Number((fold * fold - 1).toPrecision(4)) });
});
for (const kind of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    $("drop").classList.toggle("over", kind === "dragover");
    const file = kind === "drop" && event.dataTransfer.files[0];
    if (file) (event.target.closest?.("#audit-choice") ? holdOut : open)(file);
  });
}

// Nothing is to be clicked before it is known what is open: a page that was left open comes back as it was.
const admitted = await attempt(() => call("api/view"));
go(place);
if (admitted) watch();
