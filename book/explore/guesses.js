// Week 11: a trained model guesses covered words; the page holds its best five guesses at every place.
import { html, mount, svg } from "./common.js";

const figure = document.getElementById("explorable-guesses");
const data = figure && (await (await fetch(new URL("./guesses.json", import.meta.url))).json());

/** A sentence with one word covered. */
export const cover = (words, place) => words.map((word, i) => (i === place ? "____" : word)).join(" ");

mount("guesses", (panel) => {
  const which = panel.slider("Sentence", { min: 1, max: data.length, value: 1 });
  const numbers = panel.numbers("what stood there", "its place among all guesses", "share of the best guess");
  const choices = panel.add(html("div", { class: "chips", role: "radiogroup", "aria-label": "Covered word" }));
  const picture = panel.picture();
  let chosen = 2;
  let spelled;

  const spell = (one) => {
    spelled = one;
    chosen = Math.min(chosen, one.words.length - 1);
    choices.replaceChildren(
      ...one.words.map((word, i) => {
        const input = html("input", { type: "radio", name: "explorable-guesses-word" });
        input.checked = i === chosen;
        input.addEventListener("change", () => ((chosen = i), panel.changed()));
        return html("label", { class: "chip" }, input, html("span", {}, word));
      }),
    );
  };

  return (width) => {
    const one = data[which.value - 1];
    if (one !== spelled) spell(one);
    const { guesses, rank } = one.places[chosen];
    const right = one.words[chosen];
    numbers(`“${right}”`, String(rank), `${(100 * guesses[0][1]).toFixed(0)}%`);
    const high = 34;
    const left = 12 + 9 * Math.max(...guesses.map(([word]) => word.length));
    const bar = width - left - 60;
    const parts = guesses.flatMap(([word, share], i) => {
      const y = 8 + i * high;
      return [
        svg("text", { class: word === right ? "strong" : "", x: left - 10, y: y + 18, "text-anchor": "end" }, word),
        svg("rect", { class: "dial", x: left, y: y + 3, width: bar, height: high - 12, rx: 4 }),
        svg("rect", { class: `fill ${word === right ? "third" : "first"}`, x: left, y: y + 3, width: Math.max(1, bar * share), height: high - 12, rx: 4 }),
        svg("text", { class: "tick", x: left + bar + 8, y: y + 18 }, `${(100 * share).toFixed(0)}%`),
      ];
    });
    const sentence = `${cover(one.words, chosen)}: the model guesses ${guesses.map(([word]) => word).join(", ")}.`;
    picture(width, 12 + guesses.length * high, sentence, ...parts);
    return `${sentence} ${right} is number ${rank} of its guesses.`;
  };
});
