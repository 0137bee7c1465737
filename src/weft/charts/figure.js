// Draws a chart of weft into an element. Pages of `weft inspect` and the studio share this file.

// The chart scrolls inside its element: a long input makes it wider, never smaller.
export async function drawChart(element, specification, themes, { dark = false } = {}) {
  const theme = themes[dark ? "dark" : "light"];
  if (dark) specification = lighten(specification, themes.on_dark);
  const own = specification.config ?? {};
  const config = { ...own };
  for (const [name, value] of Object.entries(theme)) {
    const isTable = value !== null && typeof value === "object" && !Array.isArray(value);
    config[name] = isTable ? { ...value, ...(own[name] ?? {}) } : value;
  }
  config.view = { ...config.view, stroke: null };
  const options = { ast: true, actions: false, renderer: "canvas", tooltip: { theme: dark ? "dark" : "light" } };
  const found = await window.vegaEmbed(element, { ...specification, config }, options);
  return found.view;
}

// Colours that are bright enough on a dark ground; data stays as it is.
function lighten(part, colours) {
  if (Array.isArray(part)) return part.map((value) => lighten(value, colours));
  if (part === null || typeof part !== "object") return colours[part] ?? part;
  const isData = (name) => name === "data" || name === "datasets";
  return Object.fromEntries(
    Object.entries(part).map(([name, value]) => [name, isData(name) ? value : lighten(value, colours)]),
  );
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
