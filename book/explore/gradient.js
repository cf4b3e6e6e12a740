// Week 1: how strongly the last state of a recurrent network still depends on every word.
import { axes, line, mount, powerOfTen, short, stroke, svg } from "./common.js";
import { dot, frobenius, matmul, norm, normals, randomMatrix, range, scale, subtract, transpose } from "./math.js";

const WIDTH = 8;
const REACH = 6; // the plot shows this many powers of ten up and down

/** The states of a recurrent network with tanh, one for every input. */
export function rnnForward(xs, h0, wx, wh, b) {
  let h = h0;
  return xs.map((x) => {
    const [fromInput] = matmul([x], wx);
    const [fromState] = matmul([h], wh);
    h = b.map((bias, j) => Math.tanh(fromInput[j] + fromState[j] + bias));
    return h;
  });
}

/** For every step: the Frobenius norm of d(last state) / d(input of that step). */
export function gradientByDistance(states, wx, wh) {
  const toState = transpose(wh);
  const toInput = transpose(wx);
  // d(last state) / d(state of this step), from the last step back to the first.
  let jacobian = toState.map((_, i) => toState.map((_, j) => Number(i === j)));
  const norms = [];
  for (const state of [...states].reverse()) {
    const inside = jacobian.map((row) => row.map((value, j) => value * (1 - state[j] ** 2)));
    norms.unshift(frobenius(matmul(inside, toInput)));
    jacobian = matmul(inside, toState);
  }
  return norms;
}

/** Make the rows of a matrix orthonormal, one after the other (Gram and Schmidt). */
function orthonormal(matrix) {
  const rows = [];
  for (let row of matrix) {
    for (const earlier of rows) row = subtract(row, scale(earlier, dot(row, earlier)));
    rows.push(scale(row, 1 / norm(row)));
  }
  return rows;
}

/** A network whose w_h turns every state and multiplies its length by `radius`, and its inputs. */
export function network(radius, words, size) {
  const next = normals(1);
  const wh = orthonormal(randomMatrix(WIDTH, WIDTH, next)).map((row) => scale(row, radius));
  const wx = randomMatrix(WIDTH, WIDTH, next).map((row) => scale(row, 0.5));
  const xs = randomMatrix(words, WIDTH, next).map((row) => scale(row, size));
  return { xs, h0: Array(WIDTH).fill(0), wx, wh, b: Array(WIDTH).fill(0) };
}

mount("gradient", (panel) => {
  const radius = panel.slider("Spectral radius of w_h", {
    min: 0.5, max: 1.5, step: 0.01, value: 0.8, show: (value) => value.toFixed(2),
  });
  const words = panel.slider("Words in the sentence", { min: 5, max: 60, value: 30 });
  // In powers of ten: from a tanh that is a straight line to one that is saturated.
  const size = panel.slider("Size of the inputs", {
    min: -6, max: 0.5, step: 0.5, value: -6, show: (value) => short(10 ** value, 3),
  });
  const numbers = panel.numbers("first word ÷ last word", "the radius alone", "kept at each step", "half is gone after");
  panel.legend(
    [stroke("first"), "gradient of each word, with tanh"],
    [stroke("second"), "the radius alone, to the power of the distance"],
  );
  const picture = panel.picture();

  return (width) => {
    const { xs, h0, wx, wh, b } = network(radius.value, words.value, 10 ** size.value);
    const norms = gradientByDistance(rnnForward(xs, h0, wx, wh, b), wx, wh);
    const steps = words.value - 1;
    const share = range(words.value).map((distance) => norms[steps - distance] / norms[steps]);
    const alone = range(words.value).map((distance) => radius.value ** distance);
    const left = share[steps];
    const kept = left ** (1 / steps);
    const half = share.findIndex((value) => value < 0.5);

    const fate = left < 1e-3 ? "has all but vanished" : left > 1e3 ? "has exploded" : "is still there";
    const sentence =
      `At a radius of ${radius.value.toFixed(2)}, the gradient of the first of ${words.value} words ${fate}: ` +
      `${short(left)} times that of the last word, a factor of ${short(kept)} for each step between them.`;
    numbers(
      short(left), short(alone[steps]), `${(100 * kept).toFixed(1)}%`,
      half < 0 ? "never" : `${half} word${half > 1 ? "s" : ""}`,
    );

    const plot = axes(
      width, 300,
      { min: 0, max: steps, label: "distance from the last word", ticks: range(5).map((i) => Math.round((steps * i) / 4)) },
      {
        min: -REACH, max: REACH, label: "gradient, last word = 1", ticks: [-6, -3, 0, 3, 6],
        show: (exponent) => (exponent ? powerOfTen(exponent) : "1"),
      },
    );
    const points = (values) =>
      values
        .map((value, distance) => [distance, Math.log10(value)])
        .filter(([, exponent]) => Math.abs(exponent) <= REACH)
        .map(([distance, exponent]) => [plot.x(distance), plot.y(exponent)]);
    picture(
      width, 300, sentence, ...plot.parts, line(points(share), "first"),
      ...points(share).map(([cx, cy]) => svg("circle", { class: "fill first", cx, cy, r: 3 })),
      line(points(alone), "second"),
    );
    return sentence;
  };
});
