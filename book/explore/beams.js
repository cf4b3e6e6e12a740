// Week 8: beam search on a small language, one step at a time, with greedy's way beside it.
import { html, line, mount, short, stroke, svg } from "./common.js";
import { range } from "./math.js";

// The probabilities of the next word, by the last one.
const LANGUAGE = {
  "<start>": { the: 0.55, a: 0.45 },
  the: { dog: 0.4, cat: 0.35, bird: 0.25 },
  a: { dog: 0.9, cat: 0.1 },
  dog: { barks: 0.5, "<end>": 0.3, sleeps: 0.2 },
  cat: { sleeps: 0.55, purrs: 0.3, "<end>": 0.15 },
  bird: { sings: 0.8, "<end>": 0.2 },
  barks: { loudly: 0.5, "<end>": 0.35, again: 0.15 },
  sleeps: { "<end>": 0.6, well: 0.4 },
  purrs: { "<end>": 1 },
  sings: { well: 0.5, "<end>": 0.5 },
  loudly: { "<end>": 0.9, again: 0.1 },
  well: { "<end>": 1 },
  again: { "<end>": 1 },
};
export const WORDS = [...Object.keys(LANGUAGE), "<end>"];
const [START, END, LONGEST] = [0, WORDS.length - 1, 7];

/** Log-probabilities of the next word after a prefix. */
export const step = (prefix) => WORDS.map((word) => Math.log(LANGUAGE[WORDS[prefix.at(-1)]]?.[word] ?? 0));

/** Divide a sum of log-probabilities by ((5 + length) / 6) ** penalty. */
export const lengthNormalised = (score, length, penalty) => score / ((5 + length) / 6) ** penalty;

/**
 * Beam search. Returns the results, best first, as [tokens, score], and for every step all
 * continuations that competed: { tokens, total, kept, ended }.
 */
export function beamSearch(next, start, end, width, longest, penalty) {
  let beams = [{ tokens: [start], total: 0 }];
  const finished = [];
  const steps = [];
  while (beams.length && beams[0].tokens.length < longest) {
    const all = beams
      .flatMap(({ tokens, total }) => next(tokens).map((log, word) => ({ tokens: [...tokens, word], total: total + log })))
      .filter(({ total }) => total > -Infinity)
      .sort((a, b) => b.total - a.total);
    const ends = ({ tokens }) => tokens.at(-1) === end;
    const done = all.slice(0, width).filter(ends);
    beams = all.filter((one) => !ends(one)).slice(0, width);
    finished.push(...done);
    steps.push(all.map((one) => ({ ...one, kept: beams.includes(one) || done.includes(one), ended: ends(one) })));
  }
  const results = [...finished, ...beams]
    .map(({ tokens, total }) => [tokens, lengthNormalised(total, tokens.length - 1, penalty)])
    .sort((a, b) => b[1] - a[1])
    .slice(0, width);
  return { results, steps };
}

const spell = (tokens) => tokens.slice(1).filter((token) => token !== END).map((token) => WORDS[token]).join(" ");
const percent = (total) => `${(100 * Math.exp(total)).toFixed(1)}%`;

mount("beams", (panel) => {
  const width = panel.slider("Beam width", { min: 1, max: 4, value: 1 });
  const penalty = panel.slider("Length penalty", { min: 0, max: 2, step: 0.1, value: 0, show: (value) => value.toFixed(1) });
  const shown = panel.slider("Steps", { min: 1, max: LONGEST - 1, value: 1 });
  panel.buttons({ "From the start": () => (shown.value = 1), "One step": () => (shown.value += 1) }, "Growth");
  const numbers = panel.numbers("best sentence", "its score", "its probability", "greedy's probability");
  panel.legend([stroke("first"), "kept"], [stroke("second"), "greedy's way"], [svg("circle", { class: "fill third", cx: 17, cy: 8, r: 6 }), "ended"]);
  const scroll = panel.add(html("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "The tree" }));
  const picture = panel.picture(scroll);
  const greedy = beamSearch(step, START, END, 1, LONGEST, 0).results[0][0];
  const total = (tokens) => range(tokens.length - 1).reduce((sum, i) => sum + step(tokens.slice(0, i + 1))[tokens[i + 1]], 0);

  return (room) => {
    const { results, steps } = beamSearch(step, START, END, width.value, LONGEST, penalty.value);
    const seen = steps.slice(0, shown.value).flat();
    // A tree: every continuation hangs on its prefix; leaves get a line each, others the middle of theirs.
    const nodes = new Map([[String([START]), { tokens: [START], total: 0, kept: true, children: [] }]]);
    for (const one of seen) {
      const node = { ...one, children: [] };
      nodes.set(String(one.tokens), node);
      nodes.get(String(one.tokens.slice(0, -1))).children.push(node);
    }
    let lines = 0;
    const settle = (node) => {
      node.children.sort((a, b) => a.tokens.at(-1) - b.tokens.at(-1)).forEach(settle);
      const [first, last] = [node.children[0], node.children.at(-1)];
      node.y = first ? (first.y + last.y) / 2 : 30 + 48 * lines++;
    };
    settle(nodes.values().next().value);
    const wide = Math.max(room, 660);
    const x = (node) => 34 + ((node.tokens.length - 1) * (wide - 90)) / (LONGEST - 1);
    const onGreedy = (node) => node.tokens.every((token, i) => token === greedy[i]);
    const parts = [];
    for (const node of nodes.values()) {
      for (const child of node.children) {
        const points = [[x(node) + 6, node.y], [x(child) - 6, child.y]];
        parts.push(line(points, child.kept ? "first" : "faint"));
        if (onGreedy(child)) parts.push(line(points.map(([a, b]) => [a, b + 4]), "second"));
      }
    }
    for (const node of nodes.values()) {
      const kind = !node.kept ? "muted" : node.ended ? "fill third" : "fill first";
      const word = WORDS[node.tokens.at(-1)];
      parts.push(
        svg("circle", { class: kind, cx: x(node), cy: node.y, r: node.kept ? 6 : 4 }),
        svg("text", { class: node.kept ? "strong" : "muted", x: x(node), y: node.y - 10, "text-anchor": "middle" }, word),
        svg("text", { class: "tick", x: x(node), y: node.y + 18, "text-anchor": "middle" }, node.tokens.length > 1 ? percent(node.total) : ""),
      );
    }
    const [best, score] = results[0];
    numbers(spell(best), short(score), percent(total(best)), percent(total(greedy)));
    const sentence =
      `With width ${width.value} and penalty ${penalty.value.toFixed(1)}, the best sentence is “${spell(best)}” with ` +
      `${percent(total(best))}; greedy says “${spell(greedy)}” with ${percent(total(greedy))}.` +
      (shown.value < steps.length ? ` Shown are the first ${shown.value} of ${steps.length} steps.` : "");
    picture(wide, 20 + 48 * lines, sentence, ...parts);
    return sentence;
  };
});
