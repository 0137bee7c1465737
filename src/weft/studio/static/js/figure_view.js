// A view of the server on the page: its question, how to read it, its controls, the picture, the numbers.

import { controls } from "./controls.js";
import { showSources } from "./details.js";
import { failure, fill, isAbort, make, table } from "./dom.js";
import { Picture } from "./picture.js";

export class FigureView {
  // request(options, signal) returns a view; onoption is called with the changed options.
  constructor({ name, question, options = {}, values = {}, sliders = {}, request, onoption, onslider, oncontent = null, openNumbers = false }) {
    Object.assign(this, { name, options, values, request, onoption, oncontent, openNumbers });
    this.picture = new Picture({ sliders, onslider });
    this.controls = make("div");
    this.status = make("div", { "aria-live": "polite" });
    this.summary = make("p.summary");
    this.extra = make("div");
    this.tools = make("div");
    this.numbers = make("div");
    this.question = make("h2.question", {}, question ?? "");
    this.place = make("article", {}, this.question, this.summary, this.controls, this.status, this.picture.place, this.extra, this.tools, this.numbers);
    this.renderControls();
  }

  renderControls() {
    fill(this.controls, controls(this.options, this.values, (name, value) => this.set(name, value)));
  }

  set(name, value) {
    const { [name]: _, ...rest } = this.values;
    const same = value === null || value === "" || String(value) === String(this.options[name]?.default);
    this.values = same ? rest : { ...rest, [name]: String(value) };
    this.onoption?.(this.values);
    this.load();
  }

  stop() {
    this.aborter?.abort();
  }

  async load() {
    this.stop();
    const aborter = (this.aborter = new AbortController());
    this.picture.place.classList.add("stale");
    const waits = setTimeout(() => fill(this.status, waiting("Computing …", () => aborter.abort())), 200);
    try {
      const found = await this.request(this.values, aborter.signal);
      if (aborter.signal.aborted) return;
      await this.show(found);
      fill(this.status);
    } catch (error) {
      if (isAbort(error)) {
        if (this.aborter === aborter && this.place.isConnected) fill(this.status, stopped(() => this.load()));
        return;
      }
      this.found = null;
      fill(this.status, failure(error));
      fill(this.extra);
      this.clear();
    } finally {
      clearTimeout(waits);
      if (this.aborter === aborter) this.picture.place.classList.remove("stale");
    }
  }

  clear() {
    this.picture.place.hidden = true;
    fill(this.tools);
    fill(this.numbers);
    fill(this.summary);
  }

  async show(found) {
    this.found = found;
    if (found.question) this.question.textContent = found.question;
    showSources(found);
    if (!found.specification) {
      this.clear();
      fill(this.extra, make("p.empty", {}, found.summary));
      return;
    }
    fill(this.summary, found.summary);
    this.picture.place.hidden = false;
    await this.picture.draw(found.specification, { label: found.title || found.summary });
    fill(this.tools, this.picture.tools(this.name, () => found.data));
    const rows = found.table?.rows ?? [];
    const numbers = make("details", { class: "numbers", open: this.openNumbers }, make("summary", {}, "the numbers"));
    numbers.addEventListener("toggle", () => (this.openNumbers = numbers.open));
    numbers.addEventListener("toggle", () => numbers.open && numbers.childElementCount === 1 && numbers.append(...table(found.table.headings, rows).filter(Boolean)));
    fill(this.numbers, rows.length ? numbers : null);
    fill(this.extra);
    this.oncontent?.(found, this.extra);
  }

  dispose() {
    this.stop();
    this.picture.dispose();
  }
}

export function waiting(text, stop) {
  return make("p.waiting", {}, text, stop ? make("button", { type: "button", onclick: stop }, "stop") : null);
}

function stopped(again) {
  return make("p.empty", {}, "Stopped. ", make("button", { type: "button", onclick: again }, "again"));
}

