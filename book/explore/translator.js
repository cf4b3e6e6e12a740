// Week 7: where a trained translator looks while it writes. The page holds its queries and keys, and
// the weights are computed from them.
import { html, mount, short, svg } from "./common.js";
import { dot, range, scale, softmax, sum } from "./math.js";

/** The weights of every head: softmax of queries times keys over the root of their width. */
export const weigh = (queries, keys) =>
  queries.map((head, h) =>
    head.map((query) => softmax(scale(keys[h].map((key) => dot(query, key)), 1 / Math.sqrt(query.length)))),
  );

/** The mean over heads. */
export const average = (heads) =>
  heads[0].map((row, t) => row.map((_, s) => sum(heads.map((head) => head[t][s])) / heads.length));

/** Link every output word to the source word with the largest weight: pairs [source, output]. */
export const align = (weights) => weights.map((row, t) => [row.indexOf(Math.max(...row)), t]);

/** The alignment error rate of predicted links. */
export function errorRate(predicted, sure, possible) {
  const has = (links, [s, t]) => links.some(([a, b]) => a === s && b === t);
  const certain = predicted.filter((link) => has(sure, link)).length;
  const fine = predicted.filter((link) => has(sure, link) || has(possible, link)).length;
  const total = predicted.length + sure.length;
  return total ? 1 - (certain + fine) / total : 0;
}

const LANGUAGES = { italian: "Italian", hindi: "Hindi" };
const figure = document.getElementById("explorable-translator");
const data = figure && (await (await fetch(new URL("./translator.json", import.meta.url))).json());

mount("translator", (panel) => {
  const language = panel.select("Language", LANGUAGES);
  const sentences = (name) => data.sentences.filter((one) => one.language === name);
  const which = panel.slider("Sentence", { min: 1, max: sentences("italian").length, value: 1 });
  const heads = { mean: "mean of all heads" };
  for (const h of range(data.languages.italian.heads)) heads[`head ${h}`] = `head ${h + 1}`;
  const head = panel.select("Head", heads);
  const numbers = panel.numbers("links that are gold", "error rate of this sentence", "error rate of all held-out ones");
  const choices = html("div", { class: "chips" });
  panel.add(html("fieldset", {}, html("legend", {}, "Choose a word that is written, or point at it; the bars say how much each source word gives."), choices));
  const picture = panel.picture();
  let chosen = 0;
  let spelled;

  const spell = (one) => {
    spelled = one;
    chosen = Math.min(chosen, one.output.length - 1);
    choices.replaceChildren(
      ...one.output.map((word, t) => {
        const input = html("input", { type: "radio", name: "explorable-translator-word" });
        input.checked = t === chosen;
        const choose = () => ((chosen = t), (input.checked = true), panel.changed());
        input.addEventListener("change", choose);
        const latin = one.latin[t] === word ? [] : [html("span", { class: "share" }, one.latin[t])];
        const label = html("label", { class: "chip" }, input, html("span", { lang: one.language === "hindi" ? "hi" : "it" }, word), ...latin);
        label.addEventListener("pointerenter", choose);
        return label;
      }),
    );
  };

  return (width) => {
    const one = sentences(language.value)[which.value - 1];
    if (one !== spelled) spell(one);
    const all = weigh(one.queries, one.keys);
    const weights = head.value === "mean" ? average(all) : all[Number(head.value.slice(5))];
    const links = align(weights);
    const good = links.filter(([s, t]) => one.sure.some(([a, b]) => a === s && b === t)).length;
    const rate = errorRate(links, one.sure, one.possible);
    numbers(`${good} of ${links.length}`, `${(100 * rate).toFixed(0)}%`, `${(100 * data.languages[language.value].error_rate).toFixed(1)}%`);

    const row = weights[chosen];
    const high = 34;
    const left = 12 + 9 * Math.max(...one.source.map((word) => word.length));
    const bar = width - left - 60;
    const gold = (s) => one.sure.some(([a, b]) => a === s && b === chosen);
    const parts = one.source.flatMap((word, s) => {
      const y = 8 + s * high;
      return [
        svg("text", { class: gold(s) ? "strong" : "", x: left - 10, y: y + 18, "text-anchor": "end" }, word),
        svg("rect", { class: "dial", x: left, y: y + 3, width: bar, height: high - 12, rx: 4 }),
        svg("rect", { class: `fill ${gold(s) ? "third" : "first"}`, x: left, y: y + 3, width: Math.max(1, bar * row[s]), height: high - 12, rx: 4 }),
        svg("text", { class: "tick", x: left + bar + 8, y: y + 18 }, row[s].toFixed(2)),
      ];
    });
    const [source] = links[chosen];
    const right = gold(source) ? "as the gold alignment says" : "which is not its gold link";
    const sentence =
      `“${one.source.join(" ")}” becomes “${one.output.join(" ")}”. While it writes “${one.output[chosen]}”, ` +
      `${head.value === "mean" ? "the mean of the heads" : heads[head.value]} looks most at “${one.source[source]}” (${short(row[source])}), ${right}.`;
    picture(width, 12 + one.source.length * high, sentence, ...parts);
    return sentence;
  };
});
