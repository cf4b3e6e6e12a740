// Week 4: the table of sinusoidal positions, and two of its rows compared.
import { axes, heatmap, line, mount, short, stroke, svg } from "./common.js";
import { cosine, dot, range } from "./math.js";

const LENGTH = 100;
const DIALS = 16;

/** The table of positions: column 2i a sine, column 2i + 1 its cosine. */
export function sinusoidalPositions(length, dModel, base = 10000) {
  const frequencies = range(dModel / 2).map((i) => base ** ((-2 * i) / dModel));
  return range(length).map((position) =>
    frequencies.flatMap((frequency) => [Math.sin(position * frequency), Math.cos(position * frequency)]),
  );
}

/** Draw pairs of columns as clocks with two hands, at most so many that they can be read. */
function drawClocks(picture, width, a, b) {
  const pairs = a.length / 2;
  const shown = Math.min(pairs, DIALS);
  const perRow = Math.min(shown, DIALS / 2);
  const size = Math.min(width / perRow, 64);
  const left = (width - perRow * size) / 2;
  const parts = range(shown).flatMap((i) => {
    const pair = shown === 1 ? 0 : Math.round((i * (pairs - 1)) / (shown - 1));
    const x = left + ((i % perRow) + 0.5) * size;
    const y = Math.floor(i / perRow) * (size + 16) + size / 2;
    const radius = size / 2 - 3;
    const hand = (row) => [[x, y], [x + radius * row[2 * pair + 1], y - radius * row[2 * pair]]];
    return [
      svg("circle", { class: "dial", cx: x, cy: y, r: radius }), line(hand(a), "first"), line(hand(b), "second"),
      svg("text", { class: "tick", x, y: y + size / 2 + 11, "text-anchor": "middle" }, String(2 * pair)),
    ];
  });
  const height = Math.ceil(shown / perRow) * (size + 16) + 4;
  picture(width, height, `${shown} of ${pairs} pairs of columns as clocks, named by their first column.`, ...parts);
}

mount("positions", (panel) => {
  const first = panel.slider("First position", { min: 0, max: LENGTH / 2, value: 10 });
  const apart = panel.slider("Distance to the second", { min: 0, max: LENGTH / 2 - 1, value: 20 });
  const dModel = panel.slider("Width, d_model", { min: 2, max: 128, step: 2, value: 64 });
  const base = panel.slider("Base", {
    min: 0.5, max: 5, step: 0.25, value: 4, show: (value) => String(Math.round(10 ** value)),
  });
  const numbers = panel.numbers("dot product of the two", "their cosine", "most similar to the first", "longest wavelength");
  panel.note("The table: dark is −1, bright is 1. The two lines are the two positions.");
  const map = panel.picture();
  panel.note("Each pair of columns is the hand of a clock, fast ones first:");
  panel.legend([stroke("first"), "first position"], [stroke("second"), "second position"]);
  const clocks = panel.picture();
  panel.note("How similar the first position is to those after it:");
  const similarity = panel.picture();

  return (width) => {
    const second = first.value + apart.value;
    const table = sinusoidalPositions(LENGTH, dModel.value, 10 ** base.value);
    const [a, b] = [table[first.value], table[second]];
    const likeness = table.map((row) => cosine(a, row));
    const twin = range(LENGTH)
      .filter((position) => position !== first.value)
      .reduce((best, position) => (likeness[position] > likeness[best] ? position : best));
    const longest = 2 * Math.PI * 10 ** ((base.value * (dModel.value - 2)) / dModel.value);
    numbers(short(dot(a, b)), short(cosine(a, b), 3), `${twin} (cosine ${short(likeness[twin], 4)})`, `${short(longest, longest < 100 ? 1 : 0)} positions`);
    const sentence =
      `Positions ${first.value} and ${second} are ${apart.value} apart: their dot product is ${short(dot(a, b))}, ` +
      `as for every other pair ${apart.value} apart. The most similar to ${first.value} is position ${twin}.`;

    const plot = axes(
      width, 320,
      {
        min: 0, max: dModel.value, label: "column of the table",
        ticks: dModel.value < 8 ? range(dModel.value + 1) : range(5).map((i) => Math.round((dModel.value * i) / 4)),
      },
      { min: LENGTH, max: 0, label: "position", ticks: [0, 25, 50, 75, 100] }, { right: 44 },
    );
    const image = { x: plot.x(0), y: plot.y(0), width: plot.x(dModel.value) - plot.x(0), height: plot.y(LENGTH) - plot.y(0) };
    const mark = (position) => {
      const y = plot.y(position + 0.5);
      const ends = { x1: plot.x(0), x2: plot.x(dModel.value), y1: y, y2: y };
      return [
        svg("line", { class: "on-map under", ...ends }), svg("line", { class: "on-map", ...ends }),
        svg("text", { class: "strong", x: ends.x2 + 8, y: y + 4 }, String(position)),
      ];
    };
    // Two labels at nearly the same height would cover each other.
    const marks = apart.value > 4 || apart.value === 0 ? [first.value, second] : [first.value];
    map(
      width, 320, `The table of ${LENGTH} positions and ${dModel.value} columns as colours from −1 to 1.`,
      ...plot.parts, heatmap(table, -1, 1, image), ...marks.flatMap(mark),
    );

    drawClocks(clocks, width, a, b);

    const reach = LENGTH / 2 - 1;
    const curve = axes(
      width, 190,
      { min: 0, max: reach, label: "distance from the first position", ticks: [0, 10, 20, 30, 40] },
      { min: -1.1, max: 1.1, label: "cosine", ticks: [-1, 0, 1], show: (value) => short(value, 0) },
    );
    const points = range(reach + 1).map((k) => [curve.x(k), curve.y(likeness[first.value + k])]);
    const [cx, cy] = points[apart.value];
    similarity(
      width, 190, "Cosine with the first position against the distance.",
      ...curve.parts, line(points, "third"), svg("circle", { class: "fill third", cx, cy, r: 6 }),
    );
    return sentence;
  };
});
