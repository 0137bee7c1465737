const page = JSON.parse(document.getElementById("data").textContent);

async function drawAll() {
  for (const [number, specification] of page.charts.entries()) {
    if (!specification) continue;
    const place = document.getElementById(`chart-${number}`);
    try {
      await drawChart(place, specification, page.themes, { dark: prefersDark() });
    } catch (error) {
      place.textContent = `The chart cannot be drawn: ${error.message}`;
    }
  }
}

window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
drawAll();
