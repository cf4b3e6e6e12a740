// A walk through the whole model: the page holds the weights of a small translator, and everything that is
// shown is computed from them, for one sentence, in training and in writing.
import { html, mount, short, svg } from "./common.js";
import { maskedSoftmax } from "./masking.js";
import { cosine, layerNorm, matmul, norm, range, scale, softmax, subtract, sum, transpose } from "./math.js";
import { sinusoidalPositions } from "./positions.js";

const START = 1;

// The model

const add = (a, b) => a.map((row, i) => row.map((value, j) => value + b[i][j]));
const merge = (heads) => heads[0].map((_, i) => heads.flatMap((head) => head[i]));

/** The translator with these weights: `encode(ids)` and `decode(ids, memory)` give all that is on the way. */
export function translator({ sizes, weights }) {
  const { d_model, n_heads } = sizes;
  const d_head = d_model / n_heads;
  const linear = (x, name) => {
    const bias = weights[`${name}.bias`];
    return matmul(x, transpose(weights[`${name}.weight`])).map((row) => row.map((value, j) => value + bias[j]));
  };
  const normalise = (x, name) => x.map((row) => layerNorm(row, weights[`${name}.weight`], weights[`${name}.bias`]));
  const split = (x) => range(n_heads).map((h) => x.map((row) => row.slice(h * d_head, (h + 1) * d_head)));

  const enter = (ids, table) => {
    const embedded = ids.map((id) => weights[table][id]);
    const positions = sinusoidalPositions(ids.length, d_model);
    const scaled = embedded.map((row) => scale(row, Math.sqrt(d_model)));
    return { embedded, scaled, positions, input: add(scaled, positions) };
  };
  const attend = (asking, asked, name, mask) => {
    const [q, k, v] = [[asking, "q"], [asked, "k"], [asked, "v"]].map(([x, w]) => split(linear(x, `${name}.w_${w}`)));
    const looks = q.map((head, h) =>
      maskedSoftmax(matmul(head, transpose(k[h])).map((row) => scale(row, 1 / Math.sqrt(d_head))), mask),
    );
    const found = looks.map((look, h) => matmul(look, v[h]));
    return { q, k, v, looks, found, output: linear(merge(found), `${name}.w_o`) };
  };
  const feed = (x, name) => {
    const hidden = linear(x, `${name}.w_1`).map((row) => row.map((value) => Math.max(value, 0)));
    return { hidden, output: linear(hidden, `${name}.w_2`) };
  };

  const encode = (ids) => {
    const block = "encoder.blocks.0";
    const entered = enter(ids, "source_embedding.weight");
    const normed = normalise(entered.input, `${block}.norm_1`);
    const attention = attend(normed, normed, `${block}.attention`, ids.map(() => ids.map(() => true)));
    const attended = add(entered.input, attention.output);
    const fed = feed(normalise(attended, `${block}.norm_2`), `${block}.feed_forward`);
    const states = add(attended, fed.output);
    return { ...entered, normed, attention, attended, fed, states, memory: normalise(states, "encoder.norm") };
  };
  const decode = (ids, memory) => {
    const block = "decoder.blocks.0";
    const entered = enter(ids, "target_embedding.weight");
    const normed = normalise(entered.input, `${block}.norm_1`);
    const attention = attend(normed, normed, `${block}.attention`, ids.map((_, i) => ids.map((_, j) => j <= i)));
    const attended = add(entered.input, attention.output);
    const asking = normalise(attended, `${block}.norm_2`);
    const cross = attend(asking, memory, `${block}.cross_attention`, ids.map(() => memory.map(() => true)));
    const crossed = add(attended, cross.output);
    const fed = feed(normalise(crossed, `${block}.norm_3`), `${block}.feed_forward`);
    const states = add(crossed, fed.output);
    const final = normalise(states, "decoder.norm");
    const logits = matmul(final, transpose(weights["target_embedding.weight"]));
    const probabilities = logits.map(softmax);
    return { ...entered, normed, attention, attended, cross, crossed, fed, states, final, logits, probabilities };
  };
  return { encode, decode };
}

/**
 * Everything that happens to the sentence of `data`: in training one pass over the whole target, in
 * writing a pass for every word, over what has been written so far.
 */
export function walk(data) {
  const { encode, decode } = translator(data);
  const ids = data.source.map((word) => data.english.indexOf(word));
  const answers = [...data.target, "<end>"].map((word) => data.italian.indexOf(word));
  const encoder = encode(ids);
  const training = decode([START, ...answers.slice(0, -1)], encoder.memory);
  const writing = [];
  const written = [START];
  while (writing.length < answers.length) {
    const pass = decode(written, encoder.memory);
    const row = pass.logits.at(-1);
    pass.chosen = row.indexOf(Math.max(...row));
    writing.push(pass);
    written.push(pass.chosen);
  }
  return { ids, answers, encoder, training, writing };
}

// The language of the pictures: a strip is a vector, a grid a matrix, a line an attention weight

const ROW = 22;
const LABEL = 82;
const CELL = 9;
const text = (content, x, y, kind = "", anchor = "start") => svg("text", { class: kind, x, y, "text-anchor": anchor }, content);
const shape = (...sizes) => `(${sizes.join(", ")})`;
const largest = (rows) => Math.max(...rows.flat().map(Math.abs));

/** A part of a picture with its name, its shape and what it is for attention, which gives its colour. */
function block(name, size, drawing, kind = "") {
  const title = html("p", { class: "name" }, name, " ", html("span", { class: "shape" }, size));
  return html("div", { class: kind ? `block of-${kind}` : "block" }, title, drawing);
}

/** An arrow between two parts; below it stands what happens there. */
const arrow = (...what) => html("div", { class: "arrow on" }, html("b", {}, "→"), ...what.map((line) => html("span", {}, line)));
const sign = (which) => html("div", { class: "arrow" }, html("b", {}, which));

function drawing(width, height, ...parts) {
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height }, ...parts);
}

function cell(value, most, x, y, width, height) {
  const strength = Math.min(Math.abs(value) / most, 1);
  const part = svg("rect", { class: value < 0 ? "minus" : "plus", x, y, width, height, "fill-opacity": strength.toFixed(2) });
  part.append(svg("title", {}, short(value)));
  return part;
}

/** A hatched cell: what may not be seen. */
function hatched(x, y, width, height) {
  const across = [0.5, 1, 1.5].map((at) => {
    const [a, b] = [Math.min(at, 1), Math.max(at - 1, 0)];
    return `M${x + b * width},${y + a * height}L${x + a * width},${y + b * height}`;
  });
  return [svg("rect", { class: "closed", x, y, width, height }), svg("path", { class: "closed", d: across.join("") })];
}

/** The frame around the row that is read. */
const reading = (row, x, width) => svg("rect", { class: "read", x: x - 2, y: row * ROW, width: width + 4, height: ROW });

/**
 * A matrix as a grid, a strip for every row. `words` stand before the rows, `parts` cuts the strips (heads),
 * `lines` keeps the place of rows that are still to come, `read` frames one.
 */
function grid(rows, { words, size = CELL, parts = 1, lines = rows.length, read, most = largest(rows) } = {}) {
  const left = words ? LABEL : 2;
  const columns = rows[0].length;
  const at = (j) => left + j * size + Math.floor((j * parts) / columns) * 5;
  const width = at(columns - 1) + size + 2 - left;
  return drawing(
    left + width,
    lines * ROW,
    ...(words ?? []).slice(0, lines).map((word, i) => text(word, left - 8, i * ROW + 15, i === read ? "strong" : "", "end")),
    ...rows.flatMap((row, i) => row.map((value, j) => cell(value, most, at(j), i * ROW + 3, size, ROW - 6))),
    ...(read === undefined ? [] : [reading(read, left, width - 2)]),
  );
}

/** Heads side by side around the words that are looked at: a line is as wide as its weight. */
function lines(looks, asking, asked, { read, height = asking.length, reach = 44 } = {}) {
  const [side, middle] = [76, 68];
  const width = 2 * (side + reach) + middle;
  const down = (i, count) => (i + 0.5) * ROW + ((Math.max(height, asked.length) - count) * ROW) / 2 + ROW;
  const from = (i) => down(i, height);
  const to = (j) => down(j, asked.length);
  const bold = (i) => (i === read ? "query strong" : "query");
  const parts = looks.flatMap((look, h) => {
    const [x, end, words] = h === 0 ? [side, side + reach, side - 6] : [width - side, width - side - reach, width - side + 6];
    const strokes = look.flatMap((row, i) =>
      row.map((weight, j) => {
        if (weight < 0.01) return "";
        const faint = read === undefined || read === i ? "" : " faint";
        const stroke = { class: `look${faint}`, x1: x, y1: from(i), x2: end, y2: to(j), "stroke-width": (14 * weight).toFixed(2) };
        return svg("line", stroke, svg("title", {}, short(weight)));
      }),
    );
    return [
      text(`head ${h + 1}`, (x + end) / 2, 12, "tick", "middle"),
      ...strokes,
      ...asking.map((word, i) => text(word, words, from(i) + 4, bold(i), h === 0 ? "end" : "start")),
    ];
  });
  const keys = asked.map((word, j) => text(word, width / 2, to(j) + 4, "key", "middle"));
  return drawing(width, (Math.max(height, asked.length) + 1) * ROW, ...parts, ...keys);
}

/** Tables with named rows and columns: numbers, or weights of several heads under a mask. */
function tables(all, words, columns, { size, show, mask, read, height = words.length, names = [] }) {
  const head = 88;
  const wide = (mask ? height : columns.length) * size + 10; // what is still to come has its place
  const parts = all.flatMap((rows, h) => {
    const left = LABEL + h * wide;
    const most = largest(rows);
    return [
      text(names[h] ?? "", left + (columns.length * size) / 2, 12, "tick", "middle"),
      ...columns.map((word, j) => {
        const [x, y] = [left + j * size + size / 2 + 4, head - 6];
        return svg("text", { class: "tick", x, y, transform: `rotate(-90 ${x} ${y})` }, word);
      }),
      ...rows.flatMap((row, i) =>
        columns.flatMap((_, j) => {
          const place = [left + j * size, head + i * ROW + 1, size, ROW - 2];
          if (mask && j > i) return j < height ? hatched(...place) : [];
          const label = show ? [text(show(row[j]), place[0] + size / 2, place[1] + 14, "tick ink", "middle")] : [];
          return [cell(row[j], show ? 2 * most : most, ...place), ...label];
        }),
      ),
      ...(read === undefined ? [] : [svg("rect", { class: "read", x: left - 2, y: head + read * ROW - 1, width: columns.length * size + 4, height: ROW + 2 })]),
    ];
  });
  const labels = words.map((word, i) => text(word, LABEL - 8, head + i * ROW + 15, i === read ? "strong" : "", "end"));
  return drawing(LABEL + all.length * wide, head + height * ROW + 3, ...labels, ...parts);
}

/** Words with bars from 0 to 1. */
function bars(entries, width = 290) {
  const long = width - LABEL - 66;
  return drawing(
    width,
    entries.length * ROW,
    ...entries.flatMap(([word, share, note], i) => [
      text(word, LABEL - 8, i * ROW + 15, i === 0 && !note ? "strong" : "", "end"),
      svg("rect", { class: "dial", x: LABEL, y: i * ROW + 4, width: long, height: ROW - 8, rx: 3 }),
      svg("rect", { class: "bar", x: LABEL, y: i * ROW + 4, width: Math.max(1, long * share), height: ROW - 8, rx: 3 }),
      text(note ?? short(share, 4), LABEL + long + 6, i * ROW + 15, "tick"),
    ]),
  );
}

/** Tokens, one below the other. */
const tokens = (all) => html("ol", { class: "tokens" }, ...all.map((one) => html("li", {}, one)));

/** The two ways side by side: all rows at once in training, a growing text in writing. */
const frames = (run, t, training, writing) =>
  html(
    "div",
    { class: "frames" },
    html("div", { class: "frame" }, html("p", {}, html("b", {}, "Training"), `: one pass, all ${run.answers.length} rows`), ...training),
    html("div", { class: "frame" }, html("p", {}, html("b", {}, "Writing"), `: pass ${t + 1} of ${run.answers.length}, row ${t + 1} is read`), ...writing),
  );

// The stations, by the names that the page's sections have: a picture, and a sentence on its numbers

const quote = (words) => `“${[words].flat().join(" ")}”`;
const best = (row, n) => range(row.length).sort((a, b) => row[b] - row[a]).slice(0, n);

/** Where a word looks most, over all heads. */
function strongest(looks, i) {
  const all = looks.flatMap((look, h) => look[i].map((weight, j) => ({ weight, j, h })));
  return all.reduce((a, b) => (b.weight > a.weight ? b : a));
}

function spread(rows) {
  const sizes = rows.map((row) => norm(row.map((value) => value - sum(row) / row.length)) / Math.sqrt(row.length));
  return `${short(Math.min(...sizes))} to ${short(Math.max(...sizes))}`;
}

const STATIONS = {
  tokens({ run, data }) {
    const twice = data.source.lastIndexOf("the");
    return [
      [block("words", shape(6), tokens(data.source)), arrow("look up in", `${data.english.length} words`), block("ids", shape(6), tokens(run.ids))],
      `${quote(data.source)} becomes ${run.ids.join(", ")}. “the” is number ${run.ids[twice]} both times.`,
    ];
  },
  embedding({ run: { encoder }, data, again }) {
    return [
      [block("rows of the table", `of ${shape(data.english.length, 16)}`, grid(encoder.embedded, { words: data.source })), arrow("× √16", "= 4"), block("embedding", shape(6, 16), grid(encoder.scaled, { words: again(data.source) }))],
      "Six words are six strips of 16 numbers. Both strips of “the” are the same row, number for number.",
    ];
  },
  positions({ run: { encoder }, data, again }) {
    const apart = norm(subtract(encoder.input[0], encoder.input[3]));
    return [
      [
        block("embedding", shape(6, 16), grid(encoder.scaled, { words: data.source })),
        sign("+"),
        block("positions", shape(6, 16), grid(encoder.positions, { words: again(data.source) })),
        sign("="),
        block("x", shape(6, 16), grid(encoder.input, { words: again(data.source) })),
      ],
      `The two strips of “the” were equal; now they are ${short(apart)} apart.`,
    ];
  },
  norm({ run: { encoder }, data, again }) {
    return [
      [block("x", shape(6, 16), grid(encoder.input, { words: data.source })), arrow("norm", "of each row"), block("norm(x)", shape(6, 16), grid(encoder.normed, { words: again(data.source) }))],
      `The standard deviation within a strip ran from ${spread(encoder.input)}; after the norm and its learned gain, from ${spread(encoder.normed)}.`,
    ];
  },
  projections({ run: { encoder }, data, again }) {
    const { q, k, v } = encoder.attention;
    const view = (name, heads, kind) => block(name, shape(6, 16), grid(merge(heads), { words: again(data.source), parts: 2, size: 7 }), kind);
    return [
      [block("norm(x)", shape(6, 16), grid(encoder.normed, { words: data.source, size: 7 })), arrow("× W", shape(16, 16)), view("Q", q, "query"), view("K", k, "key"), view("V", v, "value")],
      `Each word has a query, a key and a value of 16 numbers: the first 8 belong to head 1, the last 8 to head 2.`,
    ];
  },
  "self-attention"({ run: { encoder }, data, narrow }) {
    const { looks } = encoder.attention;
    const [one, two] = [strongest(looks, 0), strongest(looks, 3)];
    const say = ({ weight, j, h }) => `${short(weight)} of its attention in head ${h + 1} to “${data.source[j]}”`;
    return [
      [block("softmax(Q Kᵀ / √8)", `${shape(2, 6, 6)}: heads, query, key`, lines(looks, data.source, data.source, { reach: narrow ? 44 : 130 }))],
      `The first “the” gives ${say(one)}, the second “the” ${say(two)}: the nouns that decide which article Italian needs.`,
    ];
  },
  residual({ run: { encoder }, data, again }) {
    const kept = cosine(encoder.input[3], encoder.attended[3]);
    return [
      [
        block("x", shape(6, 16), grid(encoder.input, { words: data.source })),
        sign("+"),
        block("heads × W_O", shape(6, 16), grid(encoder.attention.output, { words: again(data.source) })),
        sign("="),
        block("new x", shape(6, 16), grid(encoder.attended, { words: again(data.source) })),
      ],
      `What the heads found is added to what was there. The second “the” has moved: the cosine with its old strip is ${short(kept)}.`,
    ];
  },
  "feed-forward"({ run: { encoder }, data, again }) {
    const { hidden, output } = encoder.fed;
    const off = hidden.flat().filter((value) => value === 0).length;
    return [
      [
        block("wide layer, after ReLU", shape(6, 64), grid(hidden, { words: data.source, size: 3 })),
        arrow("× W₂", shape(64, 16)),
        block("what is added to x", shape(6, 16), grid(output, { words: again(data.source) })),
      ],
      `Every word goes through the same two matrices by itself. Of the ${6 * 64} numbers in the middle ReLU sets ${off} to zero.`,
    ];
  },
  memory({ run: { encoder }, data, again }) {
    return [
      [block("x after the block", shape(6, 16), grid(encoder.states, { words: data.source })), arrow("norm"), block("memory", shape(6, 16), grid(encoder.memory, { words: again(data.source) }))],
      `The memory is ${shape(6, 16)}: a strip for every English word. It is computed once, and no later station changes it.`,
    ];
  },
  "decoder-input"({ run, italian, inputs, t }) {
    const pass = run.writing[t];
    const entry = (one, words, read) => block("decoder's x", shape(words.length, 16), grid(one.input, { words, lines: inputs.length, read }));
    return [
      [frames(run, t, [entry(run.training, inputs)], [entry(pass, inputs.slice(0, t + 1), t)])],
      `Training puts in the right words, moved by one place: ${quote(inputs)}. Pass ${t + 1} of the writing puts in ${quote(inputs.slice(0, t + 1))}, and will append “${italian[pass.chosen]}”.`,
    ];
  },
  "masked-attention"({ run, inputs, t }) {
    const pass = run.writing[t];
    const n = inputs.length;
    const looks = (one, words, read) =>
      block("weights", shape(2, words.length, words.length), tables(one.attention.looks, words, words, { size: 15, mask: true, height: n, read, names: ["head 1", "head 2"] }));
    const apart = Math.max(...pass.input.flatMap((_, i) => subtract(pass.attended[i], run.training.attended[i]).map(Math.abs)));
    return [
      [frames(run, t, [looks(run.training, inputs)], [looks(pass, inputs.slice(0, t + 1), t)])],
      `The mask closes ${(n * (n - 1)) / 2} of ${n * n} cells in training. So row ${t + 1} is the same there as in pass ${t + 1} of the writing, which has no later words: the largest difference is ${apart < 1e-9 ? "0" : short(apart)}.`,
    ];
  },
  "cross-attention"({ run, data, italian, inputs, t }) {
    const pass = run.writing[t];
    const answers = run.answers.map((id) => italian[id]);
    const looks = (one, words, read) =>
      block("weights", shape(2, words.length, 6), lines(one.cross.looks, words, data.source, { read, height: inputs.length }));
    const most = pass.cross.looks.map((look) => best(look[t], 1)[0]);
    const say = (h) => `head ${h + 1} at “${data.source[most[h]]}” (${short(pass.cross.looks[h][t][most[h]])})`;
    return [
      [frames(run, t, [looks(run.training, answers)], [looks(pass, answers.slice(0, t + 1), t)])],
      `The row that writes “${answers[t]}” looks most with ${say(0)} and with ${say(1)}. Rows are named by the word that they write.`,
    ];
  },
  state({ run, italian, inputs, t }) {
    const pass = run.writing[t];
    const state = (one, words, read) =>
      block("state", shape(words.length, 16), grid(one.final, { words, lines: inputs.length, read }));
    return [
      [frames(run, t, [state(run.training, inputs)], [state(pass, inputs.slice(0, t + 1), t)])],
      `Of the ${t + 1} rows of pass ${t + 1} only the last is used: its 16 numbers decide on “${italian[pass.chosen]}”. Training uses all ${inputs.length}.`,
    ];
  },
  logits({ run, italian, inputs, t }) {
    const pass = run.writing[t];
    const answers = run.answers.map((id) => italian[id]);
    const table = (one, words, read) =>
      block("logits", `${shape(words.length, italian.length)}, ${answers.length} columns shown`, tables([one.logits.map((row) => run.answers.map((id) => row[id]))], words, answers, { size: 30, show: (x) => short(x, 0), height: inputs.length, read }));
    const [first, second] = best(pass.logits[t], 2);
    return [
      [frames(run, t, [table(run.training, inputs)], [table(pass, inputs.slice(0, t + 1), t)])],
      `Of ${italian.length} scores of row ${t + 1} the highest is that of “${italian[first]}”, ${short(pass.logits[t][first], 1)}; “${italian[second]}” comes next with ${short(pass.logits[t][second], 1)}.`,
    ];
  },
  softmax({ run, italian, inputs, t }) {
    const row = run.writing[t].probabilities[t];
    const right = run.training.probabilities.map((p, i) => p[run.answers[i]]);
    const losses = right.map((p) => -Math.log(p));
    const mean = sum(losses) / losses.length;
    return [
      [
        frames(
          run,
          t,
          [block("probability of the right word, and −log of it", shape(inputs.length), bars(run.answers.map((id, i) => [italian[id], right[i], short(losses[i], 4)])))],
          [block("the five most probable words", `of ${italian.length}`, bars(best(row, 5).map((id) => [italian[id], row[id]])))],
        ),
      ],
      `Pass ${t + 1} chooses “${italian[run.writing[t].chosen]}” with probability ${short(row[run.writing[t].chosen], 4)}. Training chooses nothing: its loss is the mean of −log p, ${short(mean, 5)}.`,
    ];
  },
  loop({ run, italian, inputs, t }) {
    const answers = run.answers.map((id) => italian[id]);
    const line = (i) => html("tr", i === t ? { class: "read" } : {}, ...[i + 1, inputs.slice(0, i + 1).join(" "), i + 1, italian[run.writing[i].chosen]].map((one) => html("td", {}, one)));
    const head = (...names) => html("tr", {}, ...names.map((name) => html("th", {}, name)));
    const taught = html("table", {}, head("goes in", "right answer"), ...inputs.map((word, i) => html("tr", {}, html("td", {}, word), html("td", {}, answers[i]))));
    const wrote = html("table", {}, head("pass", "goes in", "row read", "appended"), ...range(t + 1).map(line));
    const done = t + 1 === answers.length;
    return [
      [frames(run, t, [taught], [wrote])],
      `Pass ${t + 1} appends “${answers[t]}”. ` + (done ? `That ends it: ${quote(answers.slice(0, -1))}, in ${answers.length} passes. Training took one.` : `Pass ${t + 2} reads it back.`),
    ];
  },
};

const figure = document.getElementById("explorable-walk");
const data = figure && (await (await fetch(new URL("./walk.json", import.meta.url))).json());

mount("walk", (panel) => {
  const run = walk(data);
  const { italian } = data;
  const inputs = ["<start>", ...data.target];
  const sections = [...figure.parentElement.querySelectorAll(":scope > section")];
  const anchors = sections.map((section) => section.querySelector("[id^=station-]").id);
  const names = anchors.map((anchor) => anchor.replace("station-", ""));
  const titles = sections.map((section) => section.querySelector("h2").firstChild.textContent);
  const decoder = names.indexOf("decoder-input");

  const step = (by) => () => (station.value += by);
  panel.buttons({ Back: step(-1), Next: step(1) }, "Go to the station before or after");
  const station = panel.slider("Station", { min: 1, max: names.length, value: 1, show: (n) => `${n}: ${titles[n - 1]}` });
  const pass = panel.slider("Pass", {
    min: 1, max: inputs.length, value: 4, show: (n) => `${n} of ${inputs.length}, writes “${italian[run.answers[n - 1]]}”`,
  });
  const stops = names.map((name, i) =>
    html("a", { href: `#${anchors[i]}`, "aria-label": `${i + 1}: ${titles[i]}` }, html("b", {}, i + 1), html("span", {}, name)),
  );
  const row = (name, some) => html("div", {}, html("p", {}, name), ...some);
  panel.add(html("nav", { class: "stops", "aria-label": "Stations" }, row("Encoder", stops.slice(0, decoder)), row("Decoder", stops.slice(decoder))));
  const pictures = sections.map((section) => {
    section.classList.add("station");
    panel.add(section);
    return section.appendChild(html("div", { class: "picture", role: "img" }));
  });
  figure.classList.add("walk");

  const arrive = () => {
    const place = document.getElementById(location.hash.slice(1))?.closest(".station");
    if (!place) return;
    station.value = sections.indexOf(place) + 1;
    panel.changed();
    panel.stage.scrollIntoView({ behavior: "instant" });
  };
  addEventListener("hashchange", arrive);
  // The browser goes to the place that the address names, too, in the frame after all is loaded.
  const soon = () => requestAnimationFrame(() => requestAnimationFrame(arrive));
  if (document.readyState === "complete") soon();
  else addEventListener("load", soon);

  let drawn;
  let said;
  let shown;
  return (width) => {
    const now = station.value - 1;
    if (drawn !== `${width} ${pass.value}`) {
      drawn = `${width} ${pass.value}`;
      const narrow = width < 560;
      figure.classList.toggle("narrow", narrow);
      const again = (words) => (narrow ? words : undefined);
      // All of them, not only the one that is looked at: on paper they follow each other.
      said = names.map((name, i) => {
        const [parts, sentence] = STATIONS[name]({ run, data, italian, inputs, narrow, again, t: pass.value - 1 });
        pictures[i].replaceChildren(...parts);
        pictures[i].setAttribute("aria-label", sentence);
        return sentence;
      });
    }
    sections.forEach((section, i) => section.classList.toggle("shown", i === now));
    stops.forEach((stop, i) => stop.setAttribute("aria-current", i === now ? "step" : "false"));
    figure.classList.toggle("encoding", now < decoder);
    if (shown !== undefined && shown !== now) history.replaceState(null, "", `#${anchors[now]}`);
    shown = now;
    return said[now];
  };
});
