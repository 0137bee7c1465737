// Light or dark: as the system says, unless the reader has chosen.

const KEY = "weft-theme";
const CHOICES = ["auto", "light", "dark"];
const system = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = [];

const chosen = () => (CHOICES.includes(localStorage.getItem(KEY)) ? localStorage.getItem(KEY) : "auto");

export const isDark = () => (chosen() === "auto" ? system.matches : chosen() === "dark");

export function onTheme(listener) {
  listeners.push(listener);
}

function apply() {
  document.documentElement.toggleAttribute("data-dark", isDark());
  listeners.forEach((listener) => listener());
}

export function startTheme(button) {
  const name = () => (button.textContent = chosen());
  button.addEventListener("click", () => {
    localStorage.setItem(KEY, CHOICES[(CHOICES.indexOf(chosen()) + 1) % CHOICES.length]);
    name();
    apply();
  });
  system.addEventListener("change", apply);
  name();
  apply();
}
