// Week 11: one sentence under the masks of the families; what each word sees, and what it is asked for.
import { html, mount, svg } from "./common.js";
import { range } from "./math.js";

const WORDS = ["the", "black", "cat", "sleeps", "on", "the", "warm", "stone"];
const N = WORDS.length;

/** Who may look at whom where the first `prefix` words are read in both directions. */
export const prefixMask = (prefix, length) =>
  range(length).map((i) => range(length).map((j) => j <= i || j < prefix));

const KINDS = {
  encoder: "Encoder (BERT)",
  prefix: "Prefix (read, then write)",
  decoder: "Decoder (GPT)",
};

/** The length of the prefix that a family's mask has. */
export const prefixOf = (kind, prefix, length) => ({ encoder: length, prefix, decoder: 0 })[kind];

/** Which word a place is asked for: itself where it is covered, the next one where text is written, or none. */
export function asked(kind, place, prefix, length) {
  if (kind === "encoder") return place;
  const first = Math.max(prefixOf(kind, prefix, length) - 1, 0);
  return place >= first && place < length - 1 ? place + 1 : null;
}

mount("families", (panel) => {
  const kind = panel.select("Family", KINDS);
  const prefix = panel.slider("Prefix", { min: 1, max: N - 1, value: 3, show: (value) => `${value} words` });
  let chosen = 3;
  const radios = WORDS.map((word, i) => {
    const radio = html("input", { type: "radio", name: "explorable-families-word" });
    radio.checked = i === chosen;
    radio.addEventListener("change", () => ((chosen = i), panel.changed()));
    return radio;
  });
  const row = html("div", { class: "field wide", role: "radiogroup", "aria-label": "Word" });
  row.append(...WORDS.map((word, i) => html("label", { class: "tick" }, radios[i], ` ${word} `)));
  panel.controls.append(row);
  const numbers = panel.numbers("words that it sees", "is asked for", "pairs that may look");
  const picture = panel.picture();

  return (width) => {
    const length = prefixOf(kind.value, prefix.value, N);
    const mask = prefixMask(length, N);
    const goal = asked(kind.value, chosen, length, N);
    const seen = range(N).filter((j) => mask[chosen][j] && !(kind.value === "encoder" && j === chosen));
    const question = goal === null ? "nothing" : `“${WORDS[goal]}”`;
    numbers(`${seen.length} of ${N}`, question, `${mask.flat().filter(Boolean).length} of ${N * N}`);

    const [left, top] = [64, 30];
    const size = Math.min((width - left - 4) / N, 46);
    const cells = mask.flatMap((line, i) =>
      line.map((visible, j) => {
        const strength = visible ? (i === chosen ? 0.95 : 0.35) : 0.05;
        const [x, y] = [left + j * size, top + i * size];
        const kindOf = j === goal && i === chosen ? " forbidden" : "";
        const box = svg("rect", { class: `cell${kindOf}`, x, y, width: size - 2, height: size - 2, rx: 3, "fill-opacity": strength });
        box.addEventListener("pointerenter", () => {
          if (chosen === i) return;
          radios[(chosen = i)].checked = true;
          panel.changed();
        });
        return box;
      }),
    );
    const names = WORDS.map((word, i) =>
      svg("text", { class: i === chosen ? "strong" : "", x: left - 6, y: top + (i + 0.5) * size + 4, "text-anchor": "end" }, word),
    );
    const head = svg("text", { class: "strong", x: left, y: 18 }, "rows look at columns");
    const sentence = `“${WORDS[chosen]}” sees ${seen.length ? seen.map((j) => WORDS[j]).join(", ") : "nothing else"}.`;
    picture(left + N * size + 2, top + N * size + 4, sentence, head, ...cells, ...names);

    const why = {
      encoder: "It may see everything, so it can only be asked for itself, and only when it is covered.",
      prefix: goal === null ? "Here the text is only read, or it has ended: nothing is asked for." : `It is asked for the next word, ${question}.`,
      decoder: goal === null ? "The text has ended: nothing is asked for." : `It is asked for the next word, ${question}, which it cannot see.`,
    };
    return `${sentence} ${why[kind.value]}`;
  };
});
