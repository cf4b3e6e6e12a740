// Remembers in this browser which pages were read to the end, and shows it in the contents.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const key = "lab-read";
  const load = () => {
    try {
      return new Set(JSON.parse(localStorage.getItem(key) ?? "[]"));
    } catch {
      return new Set(); // a private window, or something else was stored there
    }
  };
  const name = (url) => url.pathname.split("/").slice(-2).join("/");
  const weeks = [...document.querySelectorAll(".bd-sidebar-primary a.reference.internal")].filter(
    (link) => /\/book\/\d\d_/.test(link.pathname),
  );

  const show = () => {
    const read = load();
    for (const link of weeks) link.classList.toggle("read", read.has(name(link)));
    const progress = document.getElementById("reading-progress");
    if (!progress) return;
    const done = weeks.filter((link) => read.has(name(link))).length;
    progress.hidden = done === 0;
    progress.querySelector("progress").max = weeks.length;
    progress.querySelector("progress").value = done;
    progress.querySelector("output").textContent = `${done} of ${weeks.length} weeks read`;
  };

  const end = document.querySelector(".prev-next-footer");
  if (end && weeks.some((link) => name(link) === name(location))) {
    new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      try {
        localStorage.setItem(key, JSON.stringify([...load().add(name(location))]));
      } catch {
        return;
      }
      show();
    }).observe(end);
  }
  show();

  // The theme draws an arrow and says nothing.
  for (const summary of document.querySelectorAll(".bd-sidebar-primary details > summary")) {
    const page = summary.closest("li").querySelector("a").textContent.trim();
    summary.setAttribute("aria-label", `Pages of “${page}”`);
  }

  // Paper is white, whichever page is on the screen.
  const page = document.documentElement;
  let shown = page.dataset.theme;
  addEventListener("beforeprint", () => {
    shown = page.dataset.theme;
    page.dataset.theme = "light";
  });
  addEventListener("afterprint", () => {
    page.dataset.theme = shown;
  });

  // `lab serve --lab` names its JupyterLab in the page.
  const lab = document.querySelector('meta[name="lab"]');
  for (const link of lab ? document.querySelectorAll("a.notebook") : []) {
    link.href = lab.content.replace("NOTEBOOK", link.dataset.notebook);
    link.hidden = false;
  }
});
