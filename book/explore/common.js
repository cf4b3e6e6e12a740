// What all explorables share: controls, live numbers, a spoken summary, and the parts of a drawing.
// Colours come from explore.css, so both themes work.

const SVG = "http://www.w3.org/2000/svg";

/** Set attributes of an element. */
export function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
}

function fill(element, attributes, children) {
  set(element, attributes);
  element.append(...children);
  return element;
}

/** Make an HTML element: html("p", { class: "note" }, "text"). */
export const html = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);

/** Make an SVG element in the same way. */
export const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

/** Let a table of controls be one stop for the tab key; arrow keys move inside it. */
export function oneStop(rows) {
  const controls = rows.flat();
  const enter = (chosen) => controls.forEach((one) => (one.tabIndex = one === chosen ? 0 : -1));
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  rows.forEach((row, i) =>
    row.forEach((control, j) => {
      control.addEventListener("focus", () => enter(control));
      control.addEventListener("keydown", (event) => {
        const [down, right] = steps[event.key] ?? [];
        const next = rows[i + down]?.[j + right];
        if (!next) return;
        event.preventDefault();
        next.focus();
      });
    }),
  );
  enter(controls[0]);
}

/** Write a power of ten: 10⁻⁴. */
export const powerOfTen = (exponent) =>
  `10${[...String(exponent)].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c])).join("")}`;

/** Write a number for reading: fixed digits near one, a power of ten far from it. */
export function short(value, digits = 2) {
  const size = Math.abs(value);
  if (value !== 0 && (size < 0.5 * 10 ** -digits || size >= 1e5)) {
    const [mantissa, exponent] = value.toExponential(1).split("e");
    return `${mantissa.replace("-", "−")} × ${powerOfTen(Number(exponent))}`;
  }
  return value.toFixed(digits).replace("-", "−");
}

/**
 * Make something that moves to where it should be instead of jumping there: `place(point)` draws it.
 * Returns a function that takes the next point. Who asked for less motion gets the jump.
 */
export function glider(place) {
  let now;
  let frame;
  return (goal) => {
    cancelAnimationFrame(frame);
    const from = now ?? goal;
    const began = performance.now();
    const long = matchMedia("(prefers-reduced-motion: reduce)").matches || from === goal ? 0 : 400;
    const step = (time) => {
      const part = long ? Math.min(Math.max((time - began) / long, 0), 1) : 1;
      const eased = part * part * (3 - 2 * part);
      now = from.map((value, i) => value + (goal[i] - value) * eased);
      place(now);
      if (part < 1) frame = requestAnimationFrame(step);
    };
    step(began);
  };
}

/**
 * Start an explorable in the figure that the page has for it. `build(panel)` adds controls and returns
 * `draw(width)`, which runs at once, after every change and when the width or the theme changes; it
 * returns one sentence that sums up what is to be seen, also for those who hear the page.
 */
export function mount(name, build) {
  const figure = document.getElementById(`explorable-${name}`);
  if (!figure) return; // imported for its functions only
  const stage = figure.querySelector(".stage");
  const panel = new Panel(name, stage, () => redraw());
  const draw = build(panel);
  const status = html("p", { class: "status", role: "status" });
  stage.append(status);
  let width = 0;
  let timer;
  const redraw = () => {
    if (width === 0) return; // not laid out yet, or folded away
    const sentence = draw(width);
    clearTimeout(timer);
    // Said once a knob rests: a screen reader would stumble over every step on the way.
    timer = setTimeout(() => (status.textContent = sentence), status.textContent ? 300 : 0);
  };
  new ResizeObserver(([entry]) => {
    if (Math.floor(entry.contentRect.width) === width) return;
    width = Math.floor(entry.contentRect.width);
    redraw();
  }).observe(stage);
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
}

/** The controls of one explorable. Each returns an object whose `value` is what the reader chose. */
class Panel {
  constructor(name, stage, changed) {
    Object.assign(this, { name, stage, changed, count: 0 });
    this.controls = html("div", { class: "controls" });
    stage.append(this.controls);
  }

  /** Put anything of your own below what is there so far. */
  add(element) {
    this.stage.append(element);
    return element;
  }

  #field(label, input, ...rest) {
    input.id = `explorable-${this.name}-${(this.count += 1)}`;
    const field = html("div", { class: "field" }, html("label", { for: input.id }, label), ...rest, input);
    this.controls.append(field);
    return input;
  }

  /** A slider; `show(value)` writes its value, for the eye and for a screen reader. */
  slider(label, { min, max, step = 1, value, show = String }) {
    const shown = html("span", { class: "value", "aria-hidden": "true" });
    const input = html("input", { type: "range", min, max, step, value });
    this.#field(label, input, shown);
    const tell = () => {
      shown.textContent = show(input.valueAsNumber);
      input.setAttribute("aria-valuetext", shown.textContent);
    };
    tell();
    input.addEventListener("input", () => (tell(), this.changed()));
    return {
      get value() {
        return input.valueAsNumber;
      },
      set value(number) {
        input.value = number;
        tell();
      },
    };
  }

  /** A choice from `options`, an object of value: text. */
  select(label, options, value) {
    const choices = Object.entries(options).map(([key, text]) => html("option", { value: key }, text));
    const input = this.#field(label, html("select", {}, ...choices));
    input.value = value ?? choices[0].value;
    input.addEventListener("change", () => this.changed());
    return input;
  }

  /** A line of text. */
  text(label, value) {
    const attributes = { type: "text", autocomplete: "off", autocapitalize: "off", spellcheck: "false" };
    const input = this.#field(label, html("input", attributes));
    input.value = value;
    input.parentElement.classList.add("wide");
    input.addEventListener("input", () => this.changed());
    return input;
  }

  /** A box to tick; read `checked`. */
  tick(label, checked = false) {
    const input = html("input", { type: "checkbox" });
    input.checked = checked;
    this.controls.append(html("label", { class: "field tick" }, input, label));
    input.addEventListener("change", () => this.changed());
    return input;
  }

  /** Buttons in a row, from an object of text: action. */
  buttons(actions, label) {
    const row = html("div", { class: "field buttons", role: "group", "aria-label": label });
    if (Object.keys(actions).length > 1) row.classList.add("wide");
    for (const [text, action] of Object.entries(actions)) {
      const button = html("button", { type: "button" }, text);
      button.addEventListener("click", () => (action(), this.changed()));
      row.append(button);
    }
    this.controls.append(row);
    return row;
  }

  /** Live numbers under these names; returns a function that takes their values in the same order. */
  numbers(...names) {
    const values = names.map(() => html("dd"));
    const pairs = names.map((name, i) => html("div", {}, html("dt", {}, name), values[i]));
    this.add(html("dl", {}, ...pairs));
    return (...texts) => texts.forEach((text, i) => (values[i].textContent = text));
  }

  /** A line of text above what follows. */
  note(text) {
    this.add(html("p", { class: "note" }, text));
  }

  /** What the signs mean, from pairs of a sign (drawn in a box of 34 by 16) and a text. */
  legend(...entries) {
    const sign = (part) => svg("svg", { width: 34, height: 16, "aria-hidden": "true" }, part);
    this.add(html("ul", { class: "legend" }, ...entries.map(([part, text]) => html("li", {}, sign(part), text))));
  }

  /** A place for a drawing: `show(width, height, label, ...parts)` replaces what it shows. */
  picture(parent = this.stage) {
    const root = svg("svg", { role: "img" });
    parent.append(root);
    return (width, height, label, ...parts) => {
      set(root, { viewBox: `0 0 ${width} ${height}`, width, height, "aria-label": label });
      root.replaceChildren(...parts);
    };
  }
}

/**
 * Axes with scales. An axis is { min, max, label, ticks, show }; the margins say how far the frame is
 * from the edges. Returns the parts to draw and the scales x and y.
 */
export function axes(width, height, x, y, margin = {}) {
  const { left = 52, top = 12, right = 14, bottom = 44 } = margin;
  const along = (axis, from, to) => (value) =>
    from + ((value - axis.min) / (axis.max - axis.min)) * (to - from);
  const px = along(x, left, width - right);
  const py = along(y, height - bottom, top);
  const text = (content, attributes) => svg("text", attributes, content);
  const show = (axis, value) => (axis.show ?? String)(value);
  const parts = [
    ...y.ticks.map((v) => svg("line", { class: "grid", x1: left, x2: width - right, y1: py(v), y2: py(v) })),
    ...y.ticks.map((v) => text(show(y, v), { class: "tick", x: left - 8, y: py(v) + 4, "text-anchor": "end" })),
    ...x.ticks.map((v) =>
      text(show(x, v), { class: "tick", x: px(v), y: height - bottom + 18, "text-anchor": "middle" }),
    ),
    svg("path", { class: "axis", d: `M${left},${top}V${height - bottom}H${width - right}` }),
    text(x.label, { class: "name", x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }),
    text(y.label, {
      class: "name",
      transform: `translate(12,${(top + height - bottom) / 2}) rotate(-90)`,
      "text-anchor": "middle",
    }),
  ];
  return { parts, x: px, y: py };
}

/** A short line for a legend. */
export const stroke = (kind) => line([[1, 8], [33, 8]], kind);

/** A line through points [x, y] in pixels; the class gives it its colour. */
export const line = (points, kind) =>
  svg("polyline", { class: `line ${kind}`, points: points.map((point) => point.join()).join(" ") });

// Samples of cividis, the colours of the book's heat maps.
const CIVIDIS = [
  [0, 34, 78], [26, 56, 111], [67, 78, 108], [97, 101, 111], [125, 124, 120],
  [155, 148, 118], [188, 174, 108], [222, 201, 88], [254, 232, 56],
];

/** Draw a matrix as an image for an SVG, one colour per number from `min` to `max`. */
export function heatmap(matrix, min, max, attributes) {
  const [height, width] = [matrix.length, matrix[0].length];
  const canvas = html("canvas", { width, height });
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  matrix.flat().forEach((value, i) => {
    const at = Math.min(Math.max((value - min) / (max - min), 0), 1) * (CIVIDIS.length - 1);
    const below = Math.min(Math.floor(at), CIVIDIS.length - 2);
    const mix = (channel) => CIVIDIS[below][channel] * (1 - at + below) + CIVIDIS[below + 1][channel] * (at - below);
    image.data.set([mix(0), mix(1), mix(2), 255], 4 * i);
  });
  context.putImageData(image, 0, 0);
  return svg("image", { class: "heatmap", href: canvas.toDataURL(), preserveAspectRatio: "none", ...attributes });
}
