// Week 2: a sentence that the reader types, with toy vectors, and where its words move.
import { axes, glider, html, mount, set, short, svg } from "./common.js";
import { cosine, matmul, norm, softmax, subtract, transpose } from "./math.js";

export const FEATURES = ["finance", "water", "change", "place", "food", "technology"];

// Written by hand. A word of two meanings stands between them, as an average over many texts does.
export const TABLE = {
  bank: [1, 1, 0, 1, 0, 0],
  apple: [0, 0, 0, 0, 1.2, 1.2],
  money: [2, 0, 0, 0, 0, 0],
  cash: [2, 0, 0, 0.2, 0, 0],
  loan: [1.9, 0, 0.3, 0, 0, 0],
  pays: [1.5, 0, 0.8, 0, 0, 0],
  sells: [1, 0, 0.8, 0, 0.2, 0.3],
  grows: [0.5, 0, 1.5, 0, 0, 0],
  river: [0, 2, 0, 0, 0, 0],
  water: [0, 1.9, 0.2, 0, 0.2, 0],
  boat: [0, 1.6, 0.4, 0.3, 0, 0],
  fish: [0, 1.4, 0, 0, 0.9, 0],
  flows: [0, 0.5, 1.5, 0, 0, 0],
  beside: [0, 0, 0, 1, 0, 0],
  town: [0.3, 0, 0, 1.8, 0, 0],
  pie: [0, 0, 0, 0, 2, 0],
  juice: [0, 0.5, 0, 0, 1.8, 0],
  eats: [0, 0, 0.8, 0, 1.6, 0],
  tree: [0, 0.2, 0.4, 0.6, 1.2, 0],
  phone: [0, 0, 0, 0, 0, 2],
  computer: [0, 0, 0, 0.1, 0, 1.9],
  launches: [0.3, 0.2, 1.2, 0, 0, 1],
};

const AMBIGUOUS = ["bank", "apple"];
const MOST = 10;
const EXAMPLES = ["money bank grows", "river bank flows", "the river beside the bank flows", "apple pie", "apple sells a phone"];

/** The words of a text, in lower case. */
export const split = (text) => text.toLowerCase().match(/[\p{L}\p{N}'-]+/gu) ?? [];

/** Static vectors; a word that the table does not know gets zeros. */
export const embed = (words) => words.map((word) => (Object.hasOwn(TABLE, word) ? TABLE[word] : FEATURES.map(() => 0)));

/** Replace every vector by a weighted sum of all: weights from dot products, with no parameters. */
export function contextualize(x) {
  const weights = matmul(x, transpose(x)).map(softmax);
  return { context: matmul(weights, x), weights };
}

/** Contextualise several times; no time at all leaves every word alone with itself. */
export function attend(words, rounds) {
  let context = embed(words);
  let weights = words.map((_, i) => words.map((_, j) => Number(i === j)));
  for (let round = 0; round < rounds; round += 1) ({ context, weights } = contextualize(context));
  return { context, weights };
}

const diamond = (x, y) => svg("path", { class: "fill second", d: `M${x - 8},${y}l8,-8l8,8l-8,8z` });

mount("attention", (panel) => {
  const text = panel.text("Your sentence", EXAMPLES[0]);
  panel.buttons(Object.fromEntries(EXAMPLES.map((example) => [example, () => (text.value = example)])), "Examples");
  const rounds = panel.slider("Rounds of attention", { min: 0, max: 6, value: 1 });
  panel.buttons({ "Keep this point": () => (kept = point()) }, "Compare");

  const chips = html("div", { class: "chips" });
  panel.add(html("fieldset", {}, html("legend", {}, "Whose weights? Choose a word; the bars say how much it takes from each."), chips));
  const numbers = panel.numbers("it has moved by", "largest weight", "where it stands", "cosine with the point kept");
  const known = Object.keys(TABLE).join(", ");
  panel.add(
    html("details", { class: "words" }, html("summary", {}, "Words that the table knows"), `${known}. Any other word gets a vector of zeros.`),
  );
  panel.legend(
    [svg("circle", { class: "hollow", cx: 17, cy: 8, r: 6 }), "in the table"],
    [svg("circle", { class: "fill first", cx: 17, cy: 8, r: 7 }), "after attention"],
    [diamond(17, 8), "the point kept"],
  );
  const pair = panel.add(html("div", { class: "pair" }));
  const map = panel.picture(pair);
  const grid = panel.picture(pair);

  let words = [];
  let chosen = 0;
  const point = () => {
    const { context } = attend(words, rounds.value);
    return { word: words[chosen], sentence: words.join(" "), vector: context[chosen] };
  };
  let kept = { word: "bank", sentence: EXAMPLES[1], vector: attend(split(EXAMPLES[1]), 1).context[1] };

  const spell = (next) => {
    const before = words[chosen];
    words = next;
    // Typing should lead to a word of two meanings, and stay with it.
    const wishes = [AMBIGUOUS.includes(before) && before, ...AMBIGUOUS, before];
    chosen = Math.max(words.indexOf(wishes.find((word) => words.includes(word))), 0);
    chips.replaceChildren(
      ...words.map((word, i) => {
        const input = html("input", { type: "radio", name: "explorable-attention-word" });
        input.checked = i === chosen;
        input.addEventListener("change", () => ((chosen = i), panel.changed()));
        const bar = html("span", { class: "bar" }, html("span"));
        return html("label", { class: "chip" }, input, word, html("span", { class: "share" }), bar);
      }),
    );
  };

  // The chosen word on the map glides; all else is drawn anew.
  const arrow = svg("line", { class: "line first" });
  const dot = svg("circle", { class: "fill first", r: 7 });
  const move = glider(([x, y]) => {
    set(arrow, { x2: x, y2: y });
    set(dot, { cx: x, cy: y });
  });

  const drawMap = (width, before, now, sentence) => {
    const [across, up] = before[4] + before[5] > before[0] + before[1] ? [4, 5] : [0, 1];
    const plot = axes(
      width, 300,
      { min: 0, max: 2.1, label: FEATURES[across], ticks: [0, 1, 2] },
      { min: 0, max: 2.1, label: FEATURES[up], ticks: [0, 1, 2] },
      { left: 38, right: 18 },
    );
    const at = (vector) => [plot.x(vector[across]), plot.y(vector[up])];
    // Words at one place share a label; those at the origin say nothing here.
    const places = new Map();
    words.forEach((word, i) => {
      const [x, y] = at(embed([word])[0]);
      const names = places.get(`${x},${y}`)?.names ?? new Set();
      if (i !== chosen && (x > plot.x(0) || y < plot.y(0))) places.set(`${x},${y}`, { x, y, names: names.add(word) });
    });
    const labels = [...places.values()].flatMap(({ x, y, names }) => {
      const end = x > width * 0.6;
      const label = { class: "muted", x: x + (end ? -9 : 9), y: y - 8, "text-anchor": end ? "end" : "start" };
      return [svg("circle", { class: "muted", cx: x, cy: y, r: 3.5 }), svg("text", label, [...names].join(", "))];
    });
    const [x, y] = at(before);
    set(arrow, { x1: x, y1: y });
    map(
      width, 300, sentence, ...plot.parts, ...labels,
      diamond(...at(kept.vector)), arrow,
      svg("circle", { class: "hollow", cx: x, cy: y, r: 6 }), dot,
    );
    move(at(now));
  };

  const drawGrid = (width, weights) => {
    const cut = (word) => (word.length > 9 ? `${word.slice(0, 8)}…` : word);
    const left = 16 + 8 * Math.max(...words.map((word) => cut(word).length));
    const size = Math.min((width - left - 4) / words.length, 64);
    const top = 24;
    const cells = weights.flatMap((row, i) =>
      row.flatMap((weight, j) => {
        const [x, y] = [left + j * size, top + i * size];
        const cell = svg("rect", { class: "cell", x, y, width: size - 1.5, height: size - 1.5, rx: 3, "fill-opacity": 0.06 + 0.94 * weight });
        const label = { class: "in-cell", x: x + size / 2, y: y + size / 2 + 4, "text-anchor": "middle" };
        return size < 36 ? [cell] : [cell, svg("text", label, weight.toFixed(2))];
      }),
    );
    const rows = words.map((word, i) =>
      svg("text", { class: i === chosen ? "strong" : "", x: left - 8, y: top + (i + 0.5) * size + 4, "text-anchor": "end" }, cut(word)),
    );
    const columns = words.map((word, j) =>
      svg("text", { class: "muted", x: left + (j + 0.5) * size, y: top - 9, "text-anchor": "middle" }, [...word].slice(0, Math.floor(size / 8)).join("")),
    );
    const frame = svg("rect", { class: "frame", x: left - 1.5, y: top + chosen * size - 1.5, width: size * words.length + 1.5, height: size + 1.5, rx: 4 });
    const label = `All weights. ${words.map((word, i) => `${word}: ${weights[i].map((w) => w.toFixed(2)).join(", ")}`).join("; ")}.`;
    const height = top + size * words.length + 28;
    const name = { class: "name", x: left + (size * words.length) / 2, y: height - 6, "text-anchor": "middle" };
    grid(width, height, label, ...cells, ...rows, ...columns, frame, svg("text", name, "each row sums to 1"));
  };

  return (width) => {
    const all = split(text.value);
    if (all.length === 0) return "Type some words, such as “money bank grows”.";
    const next = all.slice(0, MOST);
    if (next.join(" ") !== words.join(" ")) spell(next);

    const { context, weights } = attend(words, rounds.value);
    const before = embed(words)[chosen];
    const now = context[chosen];
    const row = weights[chosen];
    [...chips.children].forEach((chip, i) => {
      chip.querySelector(".share").textContent = `${(100 * row[i]).toFixed(0)}%`;
      chip.querySelector(".bar span").style.width = `${100 * row[i]}%`;
    });
    const strongest = FEATURES.map((name, i) => ({ name, value: now[i] })).sort((a, b) => b.value - a.value);
    const largest = row.indexOf(Math.max(...row));
    const moved = norm(subtract(now, before));
    const same = norm(now) && norm(kept.vector) ? short(cosine(now, kept.vector)) : "none";
    numbers(
      short(moved), `${words[largest]}, ${(100 * row[largest]).toFixed(0)}%`,
      strongest.slice(0, 2).map(({ name, value }) => `${name} ${short(value)}`).join(", "), same,
    );

    const unknown = [...new Set(words.filter((word) => !Object.hasOwn(TABLE, word)))];
    const sentence = [
      `In “${words.join(" ")}”, “${words[chosen]}” moves by ${short(moved)} and stands at ${strongest[0].name} ${short(strongest[0].value)}.`,
      `The point kept is “${kept.word}” of “${kept.sentence}”.`,
      unknown.length ? `Not in the table, so zeros: ${unknown.join(", ")}.` : "",
      all.length > MOST ? `Only the first ${MOST} words are used.` : "",
    ].filter(Boolean).join(" ");
    const half = width >= 580 ? Math.floor((width - 24) / 2) : width;
    drawMap(half, before, now, sentence);
    drawGrid(half, weights);
    return sentence;
  };
});
