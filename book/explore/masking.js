// Week 6: a mask built square by square, the weights it leaves, and what leaks.
import { html, mount, oneStop, short, svg } from "./common.js";
import { dot, normals, randomMatrix, range, scale, softmax, sum } from "./math.js";

const WORDS = ["<start>", "the", "black", "cat", "sleeps", "<pad>"];
const N = WORDS.length;
const PAD = N - 1;
const D = 4;

/** Softmax over the allowed scores only; a row with nothing allowed is zero. */
export const maskedSoftmax = (scores, mask) =>
  scores.map((row, i) =>
    mask[i].some(Boolean)
      ? softmax(row.map((score, j) => (mask[i][j] ? score : -Infinity)))
      : row.map(() => 0),
  );

/** The mistake: weights of everything first, and zeros afterwards. */
export const maskedTooLate = (scores, mask) =>
  scores.map((row, i) => softmax(row).map((weight, j) => (mask[i][j] ? weight : 0)));

const SCORES = (() => {
  const draw = normals(5);
  const [q, k] = [randomMatrix(N, D, draw), randomMatrix(N, D, draw)];
  return q.map((row) => scale(k.map((key) => dot(row, key)), 1 / Math.sqrt(D)));
})();

const table = (allowed) => range(N).map((i) => range(N).map((j) => allowed(i, j)));
const PRESETS = {
  "Everything": () => true,
  "Causal": (i, j) => j <= i,
  "No padding": (i, j) => j !== PAD,
  "Both": (i, j) => j <= i && j !== PAD,
  "Causal, without the diagonal": (i, j) => j < i,
};

mount("masking", (panel) => {
  let mask = table(PRESETS.Everything);
  const boxes = table((i, j) => {
    const box = html("input", { type: "checkbox", "aria-label": `${WORDS[i]} may look at ${WORDS[j]}` });
    box.addEventListener("change", () => ((mask[i][j] = box.checked), panel.changed()));
    return box;
  });
  oneStop(boxes);
  const presets = Object.entries(PRESETS).map(([name, rule]) => [name, () => (mask = table(rule))]);
  panel.buttons(Object.fromEntries(presets), "Masks to start from");
  const late = panel.tick("Hide after the softmax, as one should not");
  const numbers = panel.numbers("weight on later words", "weight on padding", "rows that sum to 1", "rows that see nothing");
  const pair = panel.add(html("div", { class: "pair" }));
  const cell = (tag, ...content) => html(tag, {}, ...content);
  const grid = html(
    "table", { class: "mask" },
    html("caption", {}, "Who may look (rows) at whom (columns)"),
    html("thead", {}, html("tr", {}, cell("td"), ...WORDS.map((word) => html("th", { scope: "col" }, html("span", {}, word))))),
    html("tbody", {}, ...WORDS.map((word, i) => html("tr", {}, html("th", { scope: "row" }, word), ...boxes[i].map((box) => cell("td", box))))),
  );
  pair.append(grid);
  const picture = panel.picture(pair);

  return (width) => {
    boxes.forEach((row, i) => row.forEach((box, j) => (box.checked = mask[i][j])));
    const weights = (late.checked ? maskedTooLate : maskedSoftmax)(SCORES, mask);
    const words = range(PAD); // what the padding itself looks at does not matter
    const ahead = sum(words.map((i) => sum(weights[i].slice(i + 1, PAD)))) / PAD;
    const padding = sum(words.map((i) => weights[i][PAD])) / PAD;
    const whole = weights.filter((row) => Math.abs(sum(row) - 1) < 1e-9).length;
    const blind = mask.filter((row) => !row.some(Boolean)).length;
    numbers(`${(100 * ahead).toFixed(0)}%`, `${(100 * padding).toFixed(0)}%`, `${whole} of ${N}`, String(blind));

    const part = width >= 580 ? Math.floor((width - 24) / 2) : width;
    const [left, top] = [58, 26];
    const size = Math.min((part - left - 4) / N, 52);
    const cells = weights.flatMap((row, i) =>
      row.flatMap((weight, j) => {
        const [x, y] = [left + j * size, top + i * size];
        const forbidden = mask[i][j] ? "" : " forbidden";
        const label = { class: "in-cell", x: x + size / 2, y: y + size / 2 + 4, "text-anchor": "middle" };
        return [
          svg("rect", { class: `cell${forbidden}`, x, y, width: size - 1.5, height: size - 1.5, rx: 3, "fill-opacity": 0.06 + 0.94 * weight }),
          ...(mask[i][j] && size >= 34 ? [svg("text", label, short(weight))] : []),
        ];
      }),
    );
    const names = WORDS.map((word, i) => svg("text", { x: left - 6, y: top + (i + 0.5) * size + 4, "text-anchor": "end" }, word));
    const head = svg("text", { class: "strong", x: left, y: 16 }, "the weights that are left");
    const label = `The weights. ${WORDS.map((word, i) => `${word}: ${weights[i].map((w) => short(w)).join(", ")}`).join("; ")}.`;
    picture(part, top + N * size + 6, label, head, ...cells, ...names);

    const leak = ahead > 0.005 ? `${(100 * ahead).toFixed(0)}% of the weight of the words goes to words they are to predict: a leak.` : "No word looks ahead.";
    const short_rows = N - whole - blind;
    return [
      leak,
      padding > 0.005 ? "Padding is looked at." : "Padding is hidden.",
      short_rows ? `${short_rows} rows no longer sum to one: what is hidden still makes the others smaller.` : "",
      blind ? `${blind === 1 ? "One row sees" : `${blind} rows see`} nothing, and gets zeros.` : "",
    ].filter(Boolean).join(" ");
  };
});
