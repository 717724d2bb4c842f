// Renews figures and sections of a page as the collector tells of them. Without scripts, reload the page instead.
"use strict";
const main = document.querySelector("main[data-events]");
if (main) {
  const state = document.getElementById("live");
  const say = (text) => { if (state.textContent !== text) state.textContent = text; };
  const busy = new Set();

  async function renew(name) {
    if (busy.has(name)) return;
    busy.add(name);
    try {
      const answer = await fetch(main.dataset.sections + name + "?" + main.dataset.query);
      if (!answer.ok) return;
      const made = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("section");
      const old = document.getElementById(name);
      if (!made || !old) return;
      // what the reader opened or has the focus in stays as it is
      const open = [...old.querySelectorAll("details")].map((one) => one.open);
      const hasFocus = old.contains(document.activeElement);
      if (hasFocus && document.activeElement.closest("form")) return;
      [...made.querySelectorAll("details")].forEach((one, i) => { one.open = open[i] || false; });
      const places = [...old.querySelectorAll("a, summary, [tabindex]")];
      const place = hasFocus ? places.indexOf(document.activeElement) : -1;
      old.replaceWith(document.adoptNode(made));
      if (place >= 0) made.querySelectorAll("a, summary, [tabindex]")[place]?.focus({ preventScroll: true });
    } finally {
      busy.delete(name);
    }
  }

  const source = new EventSource(main.dataset.events);
  source.addEventListener("open", () => say("Live"));
  source.addEventListener("error", () => say("Not connected: figures are as of before"));
  source.addEventListener("figures", (event) => {
    for (const [name, text] of Object.entries(JSON.parse(event.data))) {
      const shown = document.getElementById(name);
      if (shown && shown.textContent !== text) shown.textContent = text;
    }
  });
  source.addEventListener("stale", (event) => JSON.parse(event.data).forEach(renew));
  // clusters that were learned before the events began
  const pending = () => { if (document.querySelector("#clusters[data-pending]")) renew("clusters"); };
  setInterval(pending, 2000);
}
