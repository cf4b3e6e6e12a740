// The arithmetic of the explorables, in double precision: pure functions that a test can call beside
// the Python blocks. A vector is an array of numbers, a matrix an array of rows.

export const range = (n) => Array.from({ length: n }, (_, i) => i);
export const sum = (x) => x.reduce((total, value) => total + value, 0);
export const dot = (a, b) => sum(a.map((value, i) => value * b[i]));
export const norm = (x) => Math.hypot(...x);
export const scale = (x, factor) => x.map((value) => value * factor);
export const subtract = (a, b) => a.map((value, i) => value - b[i]);
export const cosine = (a, b) => dot(a, b) / (norm(a) * norm(b));
export const transpose = (m) => m[0].map((_, column) => m.map((row) => row[column]));

/** Multiply two matrices. */
export function matmul(a, b) {
  const columns = transpose(b);
  return a.map((row) => columns.map((column) => dot(row, column)));
}

/** Turn scores into weights that sum to one, however large the scores are. */
export function softmax(scores) {
  const largest = Math.max(...scores);
  const raised = scores.map((score) => Math.exp(score - largest));
  return scale(raised, 1 / sum(raised));
}

/** The matrix of the derivatives of softmax where it gives these weights. */
export const softmaxJacobian = (weights) =>
  weights.map((p, i) => weights.map((q, j) => (i === j ? p : 0) - p * q));

/** Entropy in bits: how many equally likely choices, as a power of two. */
export const entropy = (weights) => -sum(weights.map((p) => (p > 0 ? p * Math.log2(p) : 0)));

/** Frobenius norm of a matrix. */
export const frobenius = (m) => norm(m.map(norm));

/** Normalise a vector over its own features: biased variance, eps inside the root. */
export function layerNorm(x, gain, bias, eps = 1e-5) {
  const mean = sum(x) / x.length;
  const centred = x.map((value) => value - mean);
  const root = Math.sqrt(dot(centred, centred) / x.length + eps);
  return centred.map((value, i) => (value / root) * gain[i] + bias[i]);
}

/** A source of standard normal numbers; the same seed gives the same numbers on every machine. */
export function normals(seed) {
  let state = seed >>> 0;
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let z = state;
    z = Math.imul(z ^ (z >>> 15), z | 1);
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61);
    return ((z ^ (z >>> 14)) >>> 0) / 2 ** 32;
  };
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}

/** A matrix of standard normal numbers. */
export const randomMatrix = (rows, columns, next) => range(rows).map(() => range(columns).map(next));
