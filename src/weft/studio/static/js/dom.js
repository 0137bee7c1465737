// Builds elements. Text is always set as text, so a token that looks like markup is shown as it is.

export function make(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.classList.add(...value.split(" "));
    else if (key === "style") for (const [rule, setting] of Object.entries(value)) element.style.setProperty(rule, setting);
    else if (key in element && typeof value !== "string") element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const find = (id) => document.getElementById(id);

export function fill(place, ...children) {
  place.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return place;
}

// A number for people: 95.7, 0.0312, 1,234, 3.1e-9.
export function show(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-4 || size >= 1e7) ? value.toExponential(2) : String(Number(value.toPrecision(digits)));
}

export const percent = (share) => (share >= 0.9995 ? "100 %" : `${(100 * share).toFixed(1)} %`);

let timer = 0;
export function notice(text) {
  const place = find("notice");
  place.textContent = text;
  place.classList.add("shown");
  clearTimeout(timer);
  timer = setTimeout(() => place.classList.remove("shown"), 2500);
}

// A table of the numbers of a view; columns of numbers are aligned to the right.
export function table(headings, rows, { limit = 500, tokens = false } = {}) {
  const numeric = headings.map((_, column) => rows.length > 0 && rows.slice(0, 50).every((row) => typeof row[column] === "number" || row[column] === null));
  const kind = (column) => (numeric[column] ? "number" : tokens && column === 0 ? "token" : null);
  const cell = (value, column) => make("td", { class: kind(column), dir: "auto" }, show(value));
  const body = rows.slice(0, limit).map((row) => make("tr", {}, row.map(cell)));
  const head = make("tr", {}, headings.map((name, column) => make("th", { class: kind(column), scope: "col" }, name)));
  const left = rows.length - limit;
  return [
    make("div.scroll", { tabindex: "0", role: "region", "aria-label": "the numbers" }, make("table", {}, make("thead", {}, head), make("tbody", {}, body))),
    left > 0 ? make("p.faint.small", {}, `${left.toLocaleString("en")} more rows are in the data.`) : null,
  ];
}

export function failure(error) {
  return make("div.failure", { role: "alert" }, make("p", {}, error.message), error.cure ? make("p.cure", {}, error.cure) : null);
}

export const isAbort = (error) => error.name === "AbortError";
