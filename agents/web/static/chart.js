// How much waited, was asked and was finished in the last minutes.
"use strict";

(() => {
  const place = document.getElementById("chart");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const height = 172;
  let plot = null;
  let data = [[], [], [], []];

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function draw() {
    if (plot) plot.destroy();
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const rate = (plot, value) => (value == null ? "–" : value.toFixed(1));
    plot = new uPlot({
      width: place.clientWidth,
      height,
      cursor: { drag: { x: false, y: false }, points: { size: 5 } },
      scales: { x: { time: true }, waiting: { range: (u, low, high) => [0, Math.max(4, high)] }, rate: { range: (u, low, high) => [0, Math.max(1, high * 1.1)] } },
      axes: [
        { ...axis, values: (u, splits) => splits.map((each) => new Date(each * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false })), space: 70, size: 26 },
        { ...axis, scale: "rate", size: 40, values: (u, splits) => splits.map((each) => `${each}/s`) },
        { ...axis, scale: "waiting", side: 1, size: 34, grid: { show: false }, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000] },
      ],
      series: [
        { label: "at", value: (u, value) => (value == null ? "–" : new Date(value * 1000).toLocaleTimeString([], { hour12: false })) },
        { label: "waiting", scale: "waiting", stroke: colour("--idle"), fill: colour("--idle") + "66", width: 1, value: (plot, value) => value ?? "–", points: { show: false } },
        { label: "asked/s", scale: "rate", stroke: colour("--muted"), width: 1, dash: [3, 3], points: { show: false }, value: rate },
        { label: "finished/s", scale: "rate", stroke: colour("--accent"), width: 2, points: { show: false }, value: rate },
      ],
    }, data, place);
  }

  async function look() {
    try {
      const answer = await fetch(place.dataset.source, { headers: { Accept: "application/json" } });
      if (answer.ok) {
        const { times, waiting, asked, finished } = await answer.json();
        data = [times, waiting, asked, finished];
        if (plot) plot.setData(data); else draw();
      }
    } catch { /* the picture above it says that the gateway is away */ }
    setTimeout(look, 5000);
  }

  dark.addEventListener("change", draw);
  new ResizeObserver(() => plot && plot.setSize({ width: place.clientWidth, height })).observe(place);
  look();
})();
