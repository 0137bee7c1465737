// The page: reads the address, draws the three columns, and mounts the view that the address names.

import { go, link, onAddress, state } from "./address.js";
import { ACROSS, labelOf, PLAYGROUND } from "./catalog.js";
import { mountCompare } from "./compare.js";
import { clearDetails } from "./details.js";
import { failure, fill, find, isAbort, make, show } from "./dom.js";
import { mountFresh } from "./fresh.js";
import { drawInput, startInput } from "./input_bar.js";
import { startKeys } from "./keyboard.js";
import { mountLadder } from "./ladder.js";
import { mountLearn } from "./learn.js";
import { loadLibrary, setThemes } from "./picture.js";
import { mountPlayground } from "./playground.js";
import { mountRunView } from "./run_view.js";
import { allRuns, drawRuns, kindOf, runNamed, runOf, scoreOf, startRuns } from "./runs.js";
import { get, runPath } from "./server.js";
import { startTheme } from "./theme.js";
import { welcome } from "./welcome.js";

const PAGES = { compare: mountCompare, ladder: mountLadder, fresh: mountFresh, learn: mountLearn };
let info = null;
let mounted = { key: "", update() {}, dispose() {} };
const known = new Map(); // details of runs, by id

async function start() {
  startTheme(find("theme"));
  startKeys();
  startInput();
  find("open-runs").addEventListener("click", () => find("open-runs").setAttribute("aria-expanded", String(find("rail").classList.toggle("open"))));
  clearDetails();
  try {
    info = await get("/api/info");
  } catch (error) {
    fill(find("view"), failure(error));
    return;
  }
  setThemes(info.themes);
  await startRuns(() => draw({ same: true }));
  loadLibrary().catch(() => {});
  const first = allRuns().find((run) => run.state !== "broken");
  if (!state.run && first && !(state.view in ACROSS)) go({ run: first.id }, { replace: true, silent: true });
  onAddress(() => draw());
  draw();
}

// `same` is a look at the folder that found news: the view stays as it is unless its run changed.
async function draw({ same = false } = {}) {
  // An address that was typed by hand may have the name of the list: g2p for runs/g2p.
  if (state.run && !runOf(state.run) && runNamed(state.run)) go({ run: runNamed(state.run).id }, { replace: true, silent: true });
  drawRuns();
  find("rail").classList.remove("open");
  const run = runOf(state.run);
  document.title = [state.view in ACROSS ? null : run?.name, labelOf(state.view), "weft studio"].filter(Boolean).join(" – ");
  if (state.view in PAGES) {
    fill(find("heading"));
    fill(find("views"));
    find("views").hidden = find("heading").hidden = find("input").hidden = true;
    return mount(state.view, () => PAGES[state.view](find("view"), info), same);
  }
  find("views").hidden = find("heading").hidden = !run;
  if (!run) {
    find("input").hidden = true;
    return mount(`none ${allRuns().length} ${state.run}`, () => welcome(find("view"), { missing: state.run, runs: allRuns().length, info }), same);
  }
  drawHeading(run);
  if (run.state === "broken") {
    fill(find("views"));
    find("input").hidden = true;
    return mount(`broken ${run.id}`, () => fill(find("view"), failure({ message: run.error ?? "The run cannot be read.", cure: "Train it again, or choose another run." })), same);
  }
  await drawRun(run, same);
}

async function drawRun(run, same) {
  const version = `${run.id} ${run.state} ${run.saved}`;
  let details = known.get(version);
  if (!details) {
    try {
      if (!same) mount(`loading ${run.id}`, () => fill(find("view"), make("p.waiting", {}, `Loading ${run.name} …`)));
      details = await get(runPath(run.id, "details"));
      known.set(version, details);
    } catch (error) {
      if (isAbort(error)) return;
      if (run.state === "training" && !run.saved) return drawBegun(run, same);
      return mount(`failed ${run.id}`, () => fill(find("view"), failure(error)));
    }
  }
  if (runOf(state.run)?.id !== run.id || state.view in PAGES) return;
  drawTabs(run, details);
  const view = state.view === PLAYGROUND ? null : info.views.find((one) => one.name === state.view);
  if (view === undefined) {
    find("input").hidden = true;
    return mount(`unknown ${state.view}`, () => fill(find("view"), failure({ message: `There is no view "${state.view}".`, cure: `Choose one of ${info.views.map((one) => one.name).join(", ")}.` })));
  }
  drawInput(run, details, view);
  const place = find("view");
  mount(`${version} ${state.view}`, () => (view === null ? mountPlayground(place, run, details) : mountRunView(place, run, details, view)), same);
}

// Before its first validation a training has saved no model: its curves are all there is.
function drawBegun(run, same) {
  if (runOf(state.run)?.id !== run.id || state.view in PAGES) return;
  fill(find("views"), make("span.faint", {}, "The first epoch is running: answers and other views come with the first model that it saves."));
  find("input").hidden = true;
  const curves = info.views.find((one) => one.name === "curves");
  mount(`begun ${run.id}`, () => (curves ? mountRunView(find("view"), run, {}, curves) : fill(find("view"))), same);
}

function mount(key, make_view, same = false) {
  if (mounted.key === key) {
    if (!same) mounted.update();
    return;
  }
  mounted.dispose();
  clearDetails();
  const found = make_view();
  mounted = { key, update: found?.update ?? (() => {}), dispose: found?.dispose ?? (() => {}) };
}

function drawHeading(run) {
  const about = [run.task, kindOf(run), run.parameters ? `${show(run.parameters)} parameters` : null, scoreOf(run)];
  fill(find("heading"), make("h2", {}, run.name), make("span.faint", {}, about.filter(Boolean).join(" · ")));
}

function drawTabs(run, details) {
  const names = [PLAYGROUND, ...info.views.map((view) => view.name).filter((name) => details.views.includes(name) || name === state.view)];
  fill(find("views"), names.map((name) => make("a", { href: link({ view: name }), "aria-current": name === state.view ? "page" : null }, labelOf(name))));
}

start();
