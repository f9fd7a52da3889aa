// A task as it happens: samples as their tokens come, live votes; what has ended is rendered by the gateway.
"use strict";

(() => {
  const task = () => document.getElementById("task");
  if (!task() || !("live" in task().dataset)) return;
  const { task: page, events } = task().dataset;
  const cards = () => document.querySelector("#samples .cards");

  // The source is what is replaced: requests of one source wait for each other, and all but the last are dropped.
  const replace = (url, place, select) => htmx.ajax("GET", url, { source: place, target: place, select, swap: "outerHTML" });

  // Several events of one moment ask for one look.
  const asked = new Set();
  function soon(part) {
    if (asked.has(part)) return;
    asked.add(part);
    setTimeout(() => { asked.delete(part); replace(page, document.querySelector(part), part); }, 60);
  }

  function card(index) {
    const known = document.getElementById(`sample-${index}`);
    if (known) return known;
    if (!cards()) return null;
    const made = document.getElementById("sample-card").content.firstElementChild.cloneNode(true);
    made.id = `sample-${index}`;
    made.dataset.index = index;
    made.setAttribute("aria-label", `Sample ${index}`);
    made.querySelector("b").textContent = `#${index}`;
    const next = [...cards().children].find((each) => Number(each.dataset.index) > index);
    cards().insertBefore(made, next || null);
    return made;
  }

  function tokens({ sample, text }) {
    const place = card(sample);
    if (!place || place.classList.contains("done")) return;
    place.classList.replace("wait", "run");
    place.querySelector(".word").textContent = "is being drawn";
    const said = place.querySelector(".text");
    const follows = said.scrollTop + said.clientHeight >= said.scrollHeight - 8;
    said.append(text);
    if (follows) said.scrollTop = said.scrollHeight;
  }

  const groups = new Map(); // by sample: its answer, and the place of that

  function sample({ sample: index }) {
    const place = card(index);
    if (!place) return;
    replace(`${page}/samples/${index}`, place, ".card").then(() => {
      stand(index);
    });
  }

  // Equal answers stand together, the leader's first.
  function stand(index) {
    const place = document.getElementById(`sample-${index}`);
    const vote = groups.get(index);
    if (!place || !vote) return;
    place.dataset.place = vote.place;
    place.classList.toggle("leads", vote.place === 0);
    place.querySelector(".said bdi").textContent = vote.answer;
    place.querySelector(".said").hidden = false;
  }

  function votes({ votes: told, votes_in: voted, expected, stays_ahead: ahead }) {
    const most = expected || Math.max(...told.map((group) => group.count), 1);
    const rows = told.map((group, place) => {
      const row = document.getElementById("vote-row").content.firstElementChild.cloneNode(true);
      const [answer, share, count, confidence, score, samples] = row.children;
      answer.textContent = group.answer;
      share.querySelector("rect").setAttribute("width", (100 * group.count) / most);
      count.textContent = group.count;
      confidence.textContent = group.confidence.toFixed(2);
      score.textContent = group.score.toFixed(2);
      samples.textContent = group.samples.map((index) => `#${index}`).join(" ");
      row.classList.toggle("leads", place === 0);
      for (const index of group.samples) {
        groups.set(index, { place, answer: group.answer });
        stand(index);
      }
      return row;
    });
    document.getElementById("groups").replaceChildren(...rows);
    const sure = ahead == null ? "" : ` · the leader stays ahead: ${Math.round(100 * ahead)} %`;
    document.getElementById("standing").textContent = `${voted} of ${expected ?? "?"} in${sure}`;
    document.getElementById("votes").hidden = rows.length === 0;
  }

  let over = false;
  const source = new EventSource(events);
  const on = (name, handle) => source.addEventListener(name, (event) => { handle(JSON.parse(event.data)); });
  on("state", () => { if (!over) soon("#verdict"); });
  on("tokens", tokens);
  on("sample", sample);
  on("votes", votes);
  on("first_answer", () => soon("#verdict"));
  on("result", () => { over = true; soon("#task"); });
  on("delivery", () => soon("#deliveries"));
  on("gap", () => soon(over ? "#task" : "#verdict"));
  on("end", () => { source.close(); soon(over ? "#deliveries" : "#task"); });
  source.onopen = () => document.dispatchEvent(new Event("tallystream:found"));
  source.onerror = () => {
    document.dispatchEvent(new Event("tallystream:lost"));
    if (source.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 5000);
  };
})();
