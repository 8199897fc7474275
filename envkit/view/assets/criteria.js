// The verdict: every criterion with its outcome, what was expected and found, and a way to the place that shows it.

import { empty, fill, h, icon, number, plain, putText, rewardBar, words } from "./dom.js";

const MARK = { passed: "check", failed: "cross", missing: "dash" };

/** The file that an address of evidence names, among those that changed: `model.xlsx!Summary!B7`, `memo.docx ¶4`. */
export function placeOf(where) {
  const found = /^\/?((?:filesystem\/|\.apps_data\/)?[^!¶§]*?\.[A-Za-z0-9]{1,6})(?:[!\s]+(.*))?$/.exec(String(where || "").trim());
  return found ? { file: found[1], where: found[2] || "" } : null;
}

export function text(value, kind) {
  const box = h(kind || "div.value");
  putText(box, value);
  return box;
}

export function verdictView(verdict, { link } = {}) {
  const count = (outcome) => verdict.criteria.filter((c) => c.outcome === outcome).length;
  let only = "all";
  const rows = h("div.criteria", { role: "list" });
  const draw = () => fill(rows, verdict.criteria.filter((c) => only === "all" || c.outcome === only).map(row));
  const choice = h("div.choice", { role: "group", "aria-label": "Which criteria" });
  const drawChoice = () => fill(choice, [["all", `All ${verdict.count}`], ["failed", `${count("failed")} failed`], ["missing", `${count("missing")} without a verdict`], ["passed", `${count("passed")} passed`]]
    .filter(([key]) => key === "all" || count(key)).map(([key, name]) => h("button", { "aria-pressed": String(only === key), onclick: () => { only = key; draw(); drawChoice(); } }, name)));

  function row(c) {
    const to = c.where ? placeOf(c.where) : null;
    const share = verdict.weights && c.weight ? c.weight / verdict.weights : 0;
    return h("article.criterion", { class: c.outcome, role: "listitem" },
      h("div.outcome", null, h("span.mark", null, icon(MARK[c.outcome] || "dash", c.outcome))),
      h("div.body", null,
        h("header", null, h("code.id", null, plain(c.id)), c.description ? h("span.description", null, plain(c.description)) : null, h("span.grow"),
          c.gate ? h("span.pill.warn", { title: "if it fails, the whole reward is 0" }, "gate") : null,
          c.weight ? h("span.soft.weight", { title: `weight ${c.weight}` }, `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`) : c.gate ? null : h("span.soft", null, "for information"),
          c.score !== null && c.score !== undefined ? rewardBar(c.score) : h("span.pill.bad", null, "no verdict")),
        c.message ? text(c.message, "p.message") : null,
        c.failure ? h("p.badtext", null, words(c.failure.kind), ": ", plain(c.failure.message)) : null,
        c.expected !== null || c.actual !== null ? h("div.pair", null, c.expected !== null ? h("div", null, h("h4", null, "expected"), text(c.expected)) : null, c.actual !== null ? h("div", null, h("h4", null, "found"), text(c.actual)) : null) : null,
        c.where ? h("p.where", null, icon("file"), to && link ? h("a", { href: link(to) }, plain(c.where)) : h("span", null, plain(c.where))) : null));
  }
  draw();
  drawChoice();
  return [choice, rows];
}

export async function criteriaTab(body, { detail, address }) {
  const answer = detail.outcome.final_answer;
  const v = detail.verdict;
  const link = (to) => address("files", { file: to.file, where: to.where });
  const parts = [];
  if (!v) parts.push(empty("This attempt has no verdict.", detail.outcome.failure ? detail.outcome.failure.message : null));
  else {
    parts.push(h("section.verdicthead", null,
      h("div", null, h("h2", null, "Verdict"), h("p.soft", null, `by ${plain(v.verifier || "an unnamed verifier")}`)), rewardBar(v.reward, v),
      Object.keys(v.rewards || {}).length > 1 ? h("dl.facts", null, Object.entries(v.rewards).map(([name, value]) => h("div", null, h("dt", null, plain(name)), h("dd", null, number(value, 3))))) : null));
    parts.push(...verdictView(v, { link }));
  }
  for (const step of detail.steps || []) {
    if (step.verdict) parts.push(h("section", null, h("h2", null, `Step ${plain(step.name)}`), ...verdictView(step.verdict, { link })));
  }
  if (answer) {
    const box = h("div.answer");
    putText(box, answer);
    parts.push(h("section", null, h("h2", null, "Final answer", detail.outcome.answer_status ? h("span.pill.dim", null, words(detail.outcome.answer_status)) : null), box));
  }
  fill(body, h("div.scroll.verdict", { tabindex: "0" }, parts));
  return {};
}
