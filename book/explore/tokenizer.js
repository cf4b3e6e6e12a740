// Week 10: a text that the reader types, as bytes, as pre-tokens, and merge by merge as tokens.
import { html, mount, short } from "./common.js";
import { range } from "./math.js";

const BYTES = 256;
const EXAMPLES = {
  English: "The princess opens the heavy backpack.",
  Italian: "La principessa apre lo zaino pesante.",
  Hindi: "राजकुमारी भारी बैग खोलती है।",
  Code: "for name in names:\n    print(name)",
  Signs: "naïve 🙂 2026 != 2025",
};
const VOCABULARIES = { reference: "Python's reference", mixed: "English, Italian and Hindi" };
const COLOURS = 5;

// As Python reads them: a letter is a letter or a number that is no digit; marks belong to the letter
// before them; white space is what str.isspace says.
const WHITE = "\\t-\\r\\x1c- \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const LETTER = "[\\p{L}\\p{Nl}\\p{No}]";
const MARK = "(?:(?=[\\u0300-\\uffff])\\p{M}|[\\u200c\\u200d])";
const PRE_TOKEN = new RegExp(
  [
    ` ?${LETTER}+(?:${MARK}+${LETTER}*)*`,
    "\\p{Nd}+",
    `[^${WHITE}\\p{L}\\p{N}]+`,
    `[${WHITE}]+?(?= ${LETTER})`,
    `[${WHITE}]+`,
  ].join("|"),
  "gu",
);

/** Cut a text into pieces that no merge reaches across; joined they are the text. */
export const preTokens = (text) => text.match(PRE_TOKEN) ?? [];

/** The numbers of the pairs: what 256 + n is merged from, by "left,right". */
const numbered = (merges) => new Map(merges.map(([left, right], n) => [`${left},${right}`, BYTES + n]));
const known = new WeakMap();

/** Merge the bytes of a piece, the pair that was learned first always first; gives every step. */
export function mergeSteps(piece, merges) {
  if (!known.has(merges)) known.set(merges, numbered(merges));
  const ids = known.get(merges);
  let tokens = [...new TextEncoder().encode(piece)];
  const steps = [{ tokens }];
  for (;;) {
    const pairs = range(tokens.length - 1).map((i) => ids.get(`${tokens[i]},${tokens[i + 1]}`) ?? Infinity);
    const id = Math.min(...pairs);
    if (id === Infinity) return steps;
    const [left, right] = merges[id - BYTES];
    const next = [];
    for (let i = 0; i < tokens.length; i += 1) {
      if (tokens[i] === left && tokens[i + 1] === right) {
        next.push(id);
        i += 1;
      } else next.push(tokens[i]);
    }
    tokens = next;
    steps.push({ tokens, id });
  }
}

/** The tokens of a text. */
export const encode = (text, merges) => preTokens(text).flatMap((piece) => mergeSteps(piece, merges).at(-1).tokens);

/** The bytes of a token. */
export function bytesOf(token, merges) {
  return token < BYTES ? [token] : merges[token - BYTES].flatMap((part) => bytesOf(part, merges));
}

const hex = (byte) => byte.toString(16).padStart(2, "0");

/** Write a token so that it can be seen: its text, or its bytes where they are no text of their own. */
export function written(token, merges) {
  const bytes = bytesOf(token, merges);
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes));
    return text.replaceAll(" ", "␣").replaceAll("\n", "↵").replaceAll("\t", "⇥").replace(/[\p{C}\p{Z}]/gu, "▯");
  } catch {
    return bytes.map(hex).join(" ");
  }
}

const figure = document.getElementById("explorable-tokenizer");
const data = figure && (await (await fetch(new URL("./tokenizer.json", import.meta.url))).json());

mount("tokenizer", (panel) => {
  const text = html("textarea", { rows: 2, maxlength: 400, spellcheck: "false", autocapitalize: "off", id: "explorable-tokenizer-text" });
  text.value = EXAMPLES.English;
  const field = html("div", { class: "field wide" }, html("label", { for: text.id }, "Your text, in any script"), text);
  panel.controls.append(field);
  let chosen = 1;
  let step = 0;
  const again = () => ((chosen = Math.min(1, preTokens(text.value).length - 1)), (step = 0));
  text.addEventListener("input", () => (again(), panel.changed()));
  panel.buttons(
    Object.fromEntries(Object.entries(EXAMPLES).map(([name, example]) => [name, () => ((text.value = example), again())])),
    "Texts to start from",
  );
  const vocabulary = panel.select("Vocabulary learned from", VOCABULARIES);
  vocabulary.addEventListener("change", () => ((step = 0), panel.changed()));
  const numbers = panel.numbers("characters", "words", "bytes", "tokens", "tokens for a word");
  panel.note("All tokens:");
  const all = panel.add(html("p", { class: "tokens" }));
  const choices = html("div", { class: "chips" });
  panel.add(html("fieldset", {}, html("legend", {}, "Choose a pre-token, and merge its bytes:"), choices));
  const buttons = panel.buttons(
    { "Bytes": () => (step = 0), "One merge": () => (step += 1), "All merges": () => (step = Infinity) },
    "Merges of the chosen pre-token",
  );
  panel.add(buttons);
  const rows = panel.add(html("ol", { class: "merging", start: 0 }));
  let shown;

  const box = (token, merges, i) =>
    html("span", { class: `token colour-${i % COLOURS}`, title: `token ${token}: ${bytesOf(token, merges).map(hex).join(" ")}` }, written(token, merges));

  const offer = (pieces) => {
    shown = pieces.join("\0");
    choices.replaceChildren(
      ...pieces.map((piece, n) => {
        const input = html("input", { type: "radio", name: "explorable-tokenizer-piece" });
        input.addEventListener("change", () => ((chosen = n), (step = 0), panel.changed()));
        const seen = piece.replaceAll(" ", "␣").replaceAll("\n", "↵").replaceAll("\t", "⇥");
        return html("label", { class: "chip" }, input, seen);
      }),
    );
  };

  return () => {
    const merges = data[vocabulary.value];
    const typed = text.value.toWellFormed?.() ?? text.value;
    const pieces = preTokens(typed);
    const done = pieces.map((piece) => mergeSteps(piece, merges));
    const tokens = done.flatMap((steps) => steps.at(-1).tokens);
    const words = typed.split(/\s+/u).filter(Boolean).length;
    const bytes = new TextEncoder().encode(typed).length;
    numbers(String([...typed].length), String(words), String(bytes), String(tokens.length), words ? short(tokens.length / words, 1) : "–");
    all.replaceChildren(...tokens.map((token, i) => box(token, merges, i)));

    if (pieces.join("\0") !== shown) offer(pieces);
    [...choices.children].forEach((chip, n) => (chip.querySelector("input").checked = n === chosen));
    const steps = done[chosen] ?? [];
    step = Math.min(step, Math.max(0, steps.length - 1));
    rows.replaceChildren(
      ...steps.slice(0, step + 1).map(({ tokens: now, id }) => {
        const told = id === undefined ? `${now.length} bytes` : `${merges[id - BYTES].map((part) => written(part, merges)).join(" + ")} → token ${id}`;
        return html("li", {}, html("span", { class: "told" }, told), html("span", { class: "tokens" }, ...now.map((token, i) => box(token, merges, i))));
      }),
    );
    if (!tokens.length) return "Type something: an empty text has no tokens.";
    const left = steps.length - 1 - step;
    return (
      `${[...typed].length} characters, ${bytes} bytes, ${tokens.length} tokens. ` +
      `The chosen pre-token has ${steps[0].tokens.length} ${steps[0].tokens.length === 1 ? "byte" : "bytes"} and ends as ${steps.at(-1).tokens.length} ` +
      `${steps.at(-1).tokens.length === 1 ? "token" : "tokens"}; ${left ? `${left} ${left === 1 ? "merge is" : "merges are"} still to come.` : "nothing is left to merge."}`
    );
  };
});
