// Every run that the viewer was given: a card for each, its figures read when it comes into sight.

import { ask, enc, fill, h, number, plain, short, tile } from "./dom.js";
import { statusStrip } from "./trials.js";

export async function runsView(host, place, { runs }) {
  document.title = "Runs · envkit view";
  const cards = h("div.cards");
  fill(host, h("div.scroll", null, h("h1", null, `${runs.length} runs`), cards));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      seen.unobserve(entry.target);
      describe(entry.target);
    }
  }, { rootMargin: "200px" });
  for (const run of runs) {
    const card = h("a.card", { href: `#/runs/${enc(run.key)}`, dataset: { key: run.key } }, h("h2", null, plain(run.name)), h("p.soft.path", null, plain(run.path)), h("div.figures"));
    cards.append(card);
    seen.observe(card);
  }

  async function describe(card) {
    const figures = card.querySelector(".figures");
    try {
      const run = await ask(`runs/${enc(card.dataset.key)}`);
      const s = run.summary;
      fill(figures, statusStrip(s, run.planned),
        h("div.tiles.small", null, tile(number(s.mean, 3), "mean reward"), tile(short(s.trials), run.planned ? `of ${short(run.planned)} trials` : "trials"), tile(short(s.tasks), "tasks")));
    } catch (error) {
      fill(figures, h("p.soft", null, plain(error.message)));
    }
  }

  const move = (step) => {
    const all = [...cards.children], at = all.indexOf(document.activeElement);
    (all[Math.max(0, Math.min(all.length - 1, at + step))] || all[0]).focus();
  };
  return { keys: [["j ArrowDown", "next run", () => move(1)], ["k ArrowUp", "run before", () => move(-1)]], close: () => seen.disconnect() };
}
