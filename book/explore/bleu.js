// Week 9: how BLEU comes about: the runs of words that match, what is counted once too often, the length.
import { html, mount } from "./common.js";
import { range, sum } from "./math.js";

const ORDERS = 4;
const MOST = 16; // words of each sentence: more would not fit
const REFERENCE = "the cat sits on the red mat";
const EXAMPLES = {
  "One word wrong": "the cat sits on the red box",
  "The same words, shuffled": "mat the on sits red cat the",
  "Always the same word": "the the the the the the the",
  "Half of it": "the cat sits on",
  "Said otherwise": "on the red mat there is a cat",
  "Word for word": REFERENCE,
};

/** Cut a text into words, as the page's numbers need them. */
export const split = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

/** All runs of n words, from left to right. */
export const runs = (words, n) => range(Math.max(words.length - n + 1, 0)).map((i) => words.slice(i, i + n).join(" "));

/**
 * Tell of every run of n words whether it counts: "hit", "clipped" (it is in the reference, but all its
 * places there are taken) or "miss".
 */
export function matches(hypothesis, reference, n) {
  const left = new Map();
  for (const run of runs(reference, n)) left.set(run, (left.get(run) ?? 0) + 1);
  return runs(hypothesis, n).map((run) => {
    if (!left.has(run)) return { run, kind: "miss" };
    left.set(run, left.get(run) - 1);
    return { run, kind: left.get(run) >= 0 ? "hit" : "clipped" };
  });
}

/** One when the whole is at least as long as the reference, less when it is shorter. */
export const brevity = (length, wanted) => (length === 0 ? 0 : length >= wanted ? 1 : Math.exp(1 - wanted / length));

/** BLEU of a corpus, from 0 to 100: counts are added up over all sentences before anything is divided. */
export function bleu(hypotheses, references, most = ORDERS) {
  const precisions = range(most).map((i) => {
    const all = hypotheses.flatMap((words, j) => matches(words, references[j], i + 1));
    return all.length ? all.filter(({ kind }) => kind === "hit").length / all.length : 0;
  });
  const length = (sentences) => sum(sentences.map((words) => words.length));
  const penalty = brevity(length(hypotheses), length(references));
  const mean = precisions.includes(0) ? 0 : Math.exp(sum(precisions.map(Math.log)) / most);
  return { score: 100 * penalty * mean, precisions, penalty, mean };
}

const percent = (share) => `${(100 * share).toFixed(1)}%`;

mount("bleu", (panel) => {
  const reference = panel.text("Reference", REFERENCE);
  const text = panel.text("Your translation", EXAMPLES["One word wrong"]);
  const fill = ([name, words]) => [name, () => ((reference.value = REFERENCE), (text.value = words))];
  panel.buttons(Object.fromEntries(Object.entries(EXAMPLES).map(fill)), "Examples");
  const numbers = panel.numbers("BLEU", "mean of the precisions", "brevity penalty", "words");
  const table = panel.add(html("div", { class: "runs" }));

  return () => {
    const [hypothesis, wanted] = [text, reference].map(({ value }) => split(value).slice(0, MOST));
    if (hypothesis.length === 0 || wanted.length === 0) {
      numbers("0.0", "0.0%", "0.00", `${hypothesis.length} of ${wanted.length}`);
      table.replaceChildren();
      return "Type a translation and a reference of at least one word each.";
    }
    const { score, precisions, penalty, mean } = bleu([hypothesis], [wanted]);
    numbers(score.toFixed(1), percent(mean), penalty.toFixed(2), `${hypothesis.length} of ${wanted.length}`);
    const counted = range(ORDERS).map((i) => matches(hypothesis, wanted, i + 1));
    const hits = counted.map((row) => row.filter(({ kind }) => kind === "hit").length);
    const clipped = counted[0].filter(({ kind }) => kind === "clipped").length;
    table.replaceChildren(
      ...counted.map((row, i) => {
        const name = i === 0 ? "single words" : `runs of ${i + 1}`;
        const told = `${hits[i]} of ${row.length}`;
        const bar = html("span", { class: "bar" }, html("span", { style: `width: ${100 * precisions[i]}%` }));
        const said = { hit: "counts", clipped: "once too often", miss: "does not count" };
        const chips = row.map(({ run, kind }) => html("li", { class: kind, title: said[kind] }, run));
        const head = html("p", {}, html("b", {}, name), ` ${told}`, bar);
        return html("div", {}, head, html("ul", { "aria-label": `${name}, ${told}` }, ...chips));
      }),
    );
    const least = hits.indexOf(0);
    const short = hypothesis.length < wanted.length;
    return [
      `BLEU is ${score.toFixed(1)}: ${hits[0]} of ${counted[0].length} words match, and ${hits[3]} of ${counted[3].length} runs of four.`,
      clipped ? `${clipped} ${clipped === 1 ? "word is" : "words are"} there more often than in the reference: clipped.` : "",
      least >= 0 ? `No ${least === 0 ? "word" : `run of ${least + 1}`} matches, so the product is zero.` : "",
      [text, reference].some(({ value }) => split(value).length > MOST) ? `Only the first ${MOST} words are used.` : "",
      short ? `It is too short, which takes ${percent(1 - penalty)} away.` : "",
    ].filter(Boolean).join(" ");
  };
});
