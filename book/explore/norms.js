// Week 5: layer norm and batch norm on one table, while padding is added to it row by row.
import { html, mount, short, svg } from "./common.js";
import { layerNorm, range, sum } from "./math.js";

const WORDS = ["the", "old", "cat", "sleeps", "well"];
const TABLE = [[10, 4, 4, 2], [7, 7, 3, 3], [6, 6, 0, 0], [4, 10, 2, 4], [8, 8, 6, 6]];
const WIDTH = TABLE[0].length;
const MOST_PADS = 12;

/** Normalise every feature over the rows that count; the others are normalised with them. */
export function batchNorm(rows, gain, bias, counts = rows.map(() => true), eps = 1e-5) {
  const words = rows.filter((_, i) => counts[i]);
  const mean = gain.map((_, j) => sum(words.map((row) => row[j])) / words.length);
  const root = gain.map((_, j) => Math.sqrt(sum(words.map((row) => (row[j] - mean[j]) ** 2)) / words.length + eps));
  return rows.map((row) => row.map((value, j) => ((value - mean[j]) / root[j]) * gain[j] + bias[j]));
}

const ones = range(WIDTH).map(() => 1);
const zeros = range(WIDTH).map(() => 0);

mount("norms", (panel) => {
  const pads = panel.slider("Rows of padding", { min: 0, max: MOST_PADS, value: 0 });
  const leaveOut = panel.tick("Leave padding out of batch norm's statistics");
  const numbers = panel.numbers("mean of column 1", "its deviation", "“old”, batch norm", "“old”, layer norm");
  panel.note("The framed row is the word “old”; the darker a cell, the larger its number, whatever its sign.");
  const pair = panel.add(html("div", { class: "pair" }));
  const [raw, batch, layer] = range(3).map(() => panel.picture(pair));

  const draw = (picture, width, title, rows) => {
    const left = 58;
    const [wide, high, top] = [(width - left - 2) / WIDTH, 27, 26];
    const largest = Math.max(...rows.flat().map(Math.abs), 1e-9);
    const cells = rows.flatMap((row, i) =>
      row.flatMap((value, j) => {
        const [x, y] = [left + j * wide, top + i * high];
        const shade = 0.06 + (0.8 * Math.abs(value)) / largest;
        const label = { class: "in-cell", x: x + wide / 2, y: y + high / 2 + 4, "text-anchor": "middle" };
        return [
          svg("rect", { class: "cell", x, y, width: wide - 1.5, height: high - 1.5, rx: 3, "fill-opacity": shade }),
          svg("text", label, title === "the words" ? String(value) : short(value)),
        ];
      }),
    );
    const names = rows.map((_, i) =>
      svg("text", { class: i < WORDS.length ? "" : "muted", x: left - 8, y: top + (i + 0.5) * high + 4, "text-anchor": "end" }, WORDS[i] ?? "pad"),
    );
    const frame = svg("rect", { class: "frame", x: left - 1.5, y: top + high - 1.5, width: wide * WIDTH + 1.5, height: high + 1.5, rx: 4 });
    const head = svg("text", { class: "strong", x: left, y: 16 }, title);
    const label = `${title}: ${rows.map((row, i) => `${WORDS[i] ?? "pad"} ${row.map((value) => short(value)).join(", ")}`).join("; ")}.`;
    picture(width, top + rows.length * high + 6, label, head, ...cells, ...names, frame);
  };

  return (width) => {
    const rows = [...TABLE, ...range(pads.value).map(() => zeros)];
    const counts = rows.map((_, i) => !leaveOut.checked || i < WORDS.length);
    const counted = rows.filter((_, i) => counts[i]).map((row) => row[0]);
    const mean = sum(counted) / counted.length;
    const deviation = Math.sqrt(sum(counted.map((value) => (value - mean) ** 2)) / counted.length);
    const columns = batchNorm(rows, ones, zeros, counts);
    const words = rows.map((row) => layerNorm(row, ones, zeros));
    numbers(short(mean), short(deviation), short(columns[1][0]), short(words[1][0]));
    const across = width >= 860 ? 3 : width >= 580 ? 2 : 1;
    const part = Math.floor((width - 24 * (across - 1)) / across);
    draw(raw, part, "the words", rows);
    draw(batch, part, "batch norm", columns);
    draw(layer, part, "layer norm", words);
    const said = leaveOut.checked && pads.value ? "They are left out, so the column's mean stays" : "The mean of column 1 is";
    return (
      `With ${pads.value} rows of padding: ${said} ${short(mean)}. ` +
      `The first feature of “old” is ${short(columns[1][0])} after batch norm and ${short(words[1][0])} after layer norm.`
    );
  };
});
