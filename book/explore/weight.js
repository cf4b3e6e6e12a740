// Week 12: what a model weighs: its parameters, the cache of one text, and the arithmetic of one token.
import { mount, svg } from "./common.js";

// A plain model has biases, a table of positions and one matrix for embedding and output; a modern one
// has none of these, and a gate in its feed-forward layers.
export const MODELS = {
  "GPT-2 (2019)": { modern: false, layers: 12, width: 768, heads: 12, pairs: 12, hidden: 4, words: 50257, context: 1024 },
  "GPT-3 (2020)": { modern: false, layers: 96, width: 12288, heads: 96, pairs: 96, hidden: 4, words: 50257, context: 2048 },
  "LLaMA 7B (2023)": { modern: true, layers: 32, width: 4096, heads: 32, pairs: 32, hidden: 2.6875, words: 32000, context: 2048 },
  "Mistral 7B (2023)": { modern: true, layers: 32, width: 4096, heads: 32, pairs: 8, hidden: 3.5, words: 32000, context: 8192 },
  "Llama 2 70B (2023)": { modern: true, layers: 80, width: 8192, heads: 64, pairs: 8, hidden: 3.5, words: 32000, context: 4096 },
};

/** Count the parameters, the numbers in the cache of one text, and the operations of its last token. */
export function weigh({ modern, layers, width, heads, pairs, hidden, words, context }) {
  const narrow = (width / heads) * pairs;
  const inner = Math.round(hidden * width);
  const attention = 2 * width * width + 2 * width * narrow;
  const matrices = attention + (modern ? 3 : 2) * width * inner;
  const small = modern ? 2 * width : 2 * width + 2 * narrow + inner + width + 4 * width;
  const ends = modern ? 2 * words * width + width : (words + context) * width + 2 * width;
  return {
    parameters: layers * (matrices + small) + ends,
    cache: 2 * layers * narrow * context,
    // A product and a sum for each number of a matrix, and for each number of keys and values, in every head.
    operations: 2 * (layers * matrices + words * width) + 4 * layers * width * context,
  };
}

const FORMATS = { 4: "float32, 4 bytes", 2: "bfloat16, 2 bytes", 1: "int8, 1 byte", 0.5: "int4, half a byte" };

/** Write a large number with a word: 6.74 billion. */
export function large(number) {
  const [size, word] = [[1e12, " trillion"], [1e9, " billion"], [1e6, " million"], [1, ""]].find(([least]) => number >= least) ?? [1, ""];
  return `${(number / size).toPrecision(3)}${word}`;
}

const bytes = (number) => (number >= 2 ** 30 ? `${(number / 2 ** 30).toPrecision(3)} GB` : `${(number / 2 ** 20).toPrecision(3)} MB`);

mount("weight", (panel) => {
  const names = Object.keys(MODELS);
  const start = names.indexOf("LLaMA 7B (2023)");
  const chosen = panel.select("Model", Object.fromEntries([...names, "one of your own"].map((name, i) => [i, name])), start);
  const now = { ...MODELS[names[start]] };
  const steps = (from, to) => ({ min: Math.log2(from), max: Math.log2(to) });
  const layers = panel.slider("Layers", { min: 1, max: 128, value: now.layers });
  const width = panel.slider("Width", { min: 256, max: 16384, step: 256, value: now.width });
  const heads = panel.slider("Query heads", { min: 1, max: 128, value: now.heads });
  const pairs = panel.slider("Key-value heads", { min: 1, max: 128, value: now.pairs });
  const context = panel.slider("Context", { ...steps(512, 131072), value: Math.log2(now.context), show: (value) => `${2 ** value} tokens` });
  const format = panel.select("Number format", FORMATS, 2);
  const numbers = panel.numbers("parameters", "they weigh", "cache of one text", "operations for its last token");
  const picture = panel.picture();
  const knobs = { layers, width, heads, pairs };
  let model = chosen.value;

  return (room) => {
    if (chosen.value !== model && MODELS[names[chosen.value]]) {
      Object.assign(now, MODELS[names[chosen.value]]);
      for (const [name, knob] of Object.entries(knobs)) knob.value = now[name];
      context.value = Math.log2(now.context);
    }
    // Key-value heads serve equally many query heads each: the next number down that does.
    let shared = Math.min(pairs.value, heads.value);
    while (heads.value % shared) shared -= 1;
    pairs.value = shared;
    for (const [name, knob] of Object.entries(knobs)) now[name] = knob.value;
    now.context = 2 ** context.value;
    const same = (name) => Object.entries(MODELS[name]).every(([key, value]) => now[key] === value);
    const known = names.findIndex(same);
    chosen.value = model = String(known < 0 ? names.length : known);

    const { parameters, cache, operations } = weigh(now);
    const each = Number(format.value);
    const rows = [["parameters", parameters * each, "fill first"], ["cache", cache * each, "fill second"]];
    numbers(large(parameters), bytes(rows[0][1]), bytes(rows[1][1]), large(operations));
    const most = Math.max(rows[0][1], rows[1][1]);
    const parts = rows.flatMap(([name, size, kind], i) => [
      svg("text", { class: "name", x: 0, y: 20 + 44 * i }, `${name}: ${bytes(size)}`),
      svg("rect", { class: kind, x: 0, y: 26 + 44 * i, width: Math.max(1, ((room - 4) * size) / most), height: 14 }),
    ]);
    const sentence =
      `${large(parameters)} parameters weigh ${bytes(rows[0][1])}; the cache of one text of ${now.context} tokens weighs ` +
      `${bytes(rows[1][1])}, ${Math.round((100 * cache) / parameters)}% of that.`;
    picture(room, 92, sentence, ...parts);
    return sentence;
  };
});
