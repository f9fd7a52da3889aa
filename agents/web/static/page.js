// What every page has: times that grow old, and a word when the gateway does not answer.
"use strict";

(() => {
  const spans = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

  function told(ms) {
    const seconds = Math.round(Math.abs(ms) / 1000);
    if (seconds < 1) return "now";
    const [size, unit] = spans.find(([size]) => seconds >= size);
    const span = `${Math.round(seconds / size)} ${unit}`;
    return ms > 0 ? `${span} ago` : `in ${span}`;
  }

  function grow() {
    for (const time of document.querySelectorAll("time[datetime]")) {
      time.textContent = told(Date.now() - Date.parse(time.dateTime));
    }
  }
  setInterval(grow, 5000);

  const lost = () => document.getElementById("lost");
  const trouble = () => document.getElementById("trouble");

  document.addEventListener("tallystream:lost", () => { lost().hidden = false; });
  document.addEventListener("tallystream:found", () => { lost().hidden = true; });
  document.addEventListener("htmx:sendError", () => { lost().hidden = false; });
  document.addEventListener("htmx:afterOnLoad", () => { lost().hidden = true; trouble().hidden = true; });
  document.addEventListener("htmx:responseError", (event) => {
    const { status, responseText } = event.detail.xhr;
    if (status === 401) { location.assign(`/login?next=${encodeURIComponent(location.pathname)}`); return; }
    let detail = `The gateway answered ${status}.`;
    try { detail = JSON.parse(responseText).detail || detail; } catch { /* it is no problem document */ }
    trouble().textContent = detail;
    trouble().hidden = false;
    lost().hidden = true;
  });

  // What a person has opened to be asked about is not closed under their hands by a poll.
  document.addEventListener("htmx:beforeRequest", (event) => {
    const { elt } = event.detail;
    if (elt.matches('[hx-trigger^="every"]') && elt.querySelector("details[open]")) event.preventDefault();
  });
})();
