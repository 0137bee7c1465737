// Draws a chart of weft into an element. Pages of `weft inspect` and the studio share this file.

// The chart scrolls inside its element: a long input makes it wider, never smaller.
export async function drawChart(element, specification, themes, { dark = false } = {}) {
  const theme = themes[dark ? "dark" : "light"];
  const own = specification.config ?? {};
  const config = { ...own };
  for (const [name, value] of Object.entries(theme)) {
    const isTable = value !== null && typeof value === "object" && !Array.isArray(value);
    config[name] = isTable ? { ...value, ...(own[name] ?? {}) } : value;
  }
  config.view = { ...config.view, stroke: null };
  const options = { ast: true, actions: false, renderer: "canvas", tooltip: { theme: dark ? "dark" : "light" } };
  const found = await window.vegaEmbed(element, { ...withRows(specification), config }, options);
  return found.view;
}

// Vega reads CSV with generated code, which the policy of pages forbids; here it becomes rows.
function withRows(value) {
  if (Array.isArray(value)) return value.map(withRows);
  if (value === null || typeof value !== "object") return value;
  if (typeof value.values === "string" && value.format?.type === "csv") {
    const { format, ...rest } = value;
    return { ...rest, values: readRows(value.values, format.parse ?? {}) };
  }
  // Rows of data hold no data of their own, and may be many.
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, name === "values" || name === "datasets" ? inner : withRows(inner)]));
}

function readRows(text, kinds) {
  const cells = [...text.matchAll(/("(?:[^"]|"")*"|[^",\n]*)(,|\n|$)/g)];
  const rows = [[]];
  for (const [whole, cell, end] of cells) {
    if (whole === "") break;
    rows.at(-1).push(cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell);
    if (end !== ",") rows.push([]);
  }
  const [head, ...body] = rows.filter((row) => row.length);
  const read = (name, cell) => (kinds[name] === "number" ? (cell === "" ? null : Number(cell)) : cell);
  return body.map((row) => Object.fromEntries(head.map((name, place) => [name, read(name, row[place])])));
}

export function prefersDark() {
  return window.matchMedia("(prefers-color-scheme: dark)").matches;
}

// Saves text or a data URL under a file name.
export function download(name, content, type = "application/json") {
  const link = document.createElement("a");
  link.download = name;
  link.href = content.startsWith("data:") ? content : URL.createObjectURL(new Blob([content], { type }));
  link.click();
  if (link.href.startsWith("blob:")) URL.revokeObjectURL(link.href);
}
