// Week 3: what the width of the keys does to a softmax, with and without the root.
import { axes, line, mount, short, svg } from "./common.js";
import { dot, entropy, frobenius, normals, randomMatrix, range, softmax, softmaxJacobian, sum } from "./math.js";

const WIDEST = 9; // as a power of two
const MOST_KEYS = 12;
const DRAWS = 100;

/** Weights, their entropy and the size of their Jacobian, by which every gradient is multiplied. */
export function look(scores) {
  const weights = softmax(scores);
  return { weights, bits: entropy(weights), gradient: frobenius(softmaxJacobian(weights)) };
}

/** A query and keys of the greatest width; narrower ones are their first components. */
export function draw(seed) {
  const [q, ...keys] = randomMatrix(MOST_KEYS + 1, 2 ** WIDEST, normals(seed));
  return { q, keys };
}

/** The dot products of the first d components of the query and of n keys, divided by `divisor`. */
export const scores = ({ q, keys }, d, n, divisor) =>
  keys.slice(0, n).map((key) => dot(q.slice(0, d), key) / divisor);

/** Mean gradient over many draws for every width, with the root and without. */
function average(draws, n) {
  const mean = (d, divisor) => sum(draws.map((one) => look(scores(one, d, n, divisor)).gradient)) / DRAWS;
  return range(WIDEST + 1).map((power) => [mean(2 ** power, Math.sqrt(2 ** power)), mean(2 ** power, 1)]);
}

mount("scaling", (panel) => {
  const power = panel.slider("Width d_k", { min: 0, max: WIDEST, value: 6, show: (value) => String(2 ** value) });
  const keys = panel.slider("Number of keys", { min: 2, max: MOST_KEYS, value: 10 });
  let seed = 17;
  panel.buttons({ "Draw other vectors": () => (seed += 1) }, "Vectors");
  const swatch = (kind) => svg("rect", { class: `fill ${kind}`, x: 8, y: 1, width: 18, height: 14 });
  const numbers = panel.numbers("entropy with the root", "entropy without", "gradient with the root", "gradient without");
  panel.note("Weights of one query over the keys, from scores");
  panel.legend([swatch("first"), "q · k divided by the root of d_k"], [swatch("second"), "q · k as they are"]);
  const bars = panel.picture();
  panel.note(`Size of the gradient that gets through: the lines are means over ${DRAWS} draws, the dots these vectors.`);
  const curves = panel.picture();
  const draws = range(DRAWS).map((i) => draw(1000 + i));
  const averages = {}; // by number of keys: they do not depend on the other knobs

  return (width) => {
    const d = 2 ** power.value;
    const vectors = draw(seed);
    const rooted = look(scores(vectors, d, keys.value, Math.sqrt(d)));
    const plain = look(scores(vectors, d, keys.value, 1));
    numbers(`${short(rooted.bits)} bits`, `${short(plain.bits)} bits`, short(rooted.gradient, 3), short(plain.gradient, 3));
    const largest = (weights) => `${(100 * Math.max(...weights)).toFixed(0)}%`;
    const sentence =
      `With d_k = ${d}, the largest of ${keys.value} weights is ${largest(rooted.weights)} with the root and ` +
      `${largest(plain.weights)} without. The gradient that gets through without it is ` +
      `${short(plain.gradient / rooted.gradient)} times the one with it.`;

    const height = 240;
    const plot = axes(
      width, height,
      { min: 0, max: keys.value, label: "key", ticks: range(keys.value).map((i) => i + 0.5), show: (at) => String(at + 0.5) },
      { min: 0, max: 1, label: "weight", ticks: [0, 0.5, 1] },
    );
    const bar = (weights, kind, shift) =>
      weights.map((weight, i) => {
        const x = plot.x(i + shift);
        return svg("rect", { class: `fill ${kind}`, x, y: plot.y(weight), width: plot.x(i + shift + 0.34) - x, height: plot.y(0) - plot.y(weight) });
      });
    bars(width, height, sentence, ...plot.parts, ...bar(rooted.weights, "first", 0.14), ...bar(plain.weights, "second", 0.52));

    averages[keys.value] ??= average(draws, keys.value);
    const means = averages[keys.value];
    const frame = axes(
      width, 220,
      { min: 0, max: WIDEST, label: "d_k", ticks: range(WIDEST + 1), show: (at) => String(2 ** at) },
      { min: 0, max: 0.6, label: "gradient", ticks: [0, 0.2, 0.4, 0.6], show: (value) => value.toFixed(1) },
    );
    const curve = (which) => means.map((pair, i) => [frame.x(i), frame.y(pair[which])]);
    const here = frame.x(power.value);
    curves(
      width, 220, `Mean gradient over ${DRAWS} draws, for d_k from 1 to ${2 ** WIDEST}.`,
      ...frame.parts, svg("line", { class: "here", x1: here, x2: here, y1: frame.y(0), y2: frame.y(0.6) }),
      line(curve(0), "first"), line(curve(1), "second"),
      ...[[rooted, "first"], [plain, "second"]].map(([one, kind]) =>
        svg("circle", { class: `fill ${kind}`, cx: here, cy: frame.y(Math.min(one.gradient, 0.6)), r: 6 })),
    );
    return sentence;
  };
});
