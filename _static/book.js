/* The site's own behaviour: drawings open enlarged and can be saved; slider settings live in the address. */
(() => {
  "use strict";

  // ---- drawings ---------------------------------------------------------------------------------------------------

  const dialog = document.createElement("dialog");
  dialog.className = "enlarged";
  dialog.setAttribute("aria-label", "Enlarged drawing");
  dialog.innerHTML =
    '<form method="dialog"><button type="button" data-save="svg">Save SVG</button>' +
    '<button type="button" data-save="png">Save PNG</button><button autofocus>Close</button></form><div></div>';

  function enlarge(drawing) {
    const copy = drawing.cloneNode(true);
    copy.removeAttribute("tabindex");
    copy.removeAttribute("width");
    dialog.querySelector("div").replaceChildren(copy);
    dialog.dataset.name = (drawing.getAttribute("aria-label") || "drawing").toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 40);
    dialog.showModal();
  }

  /* A stand-alone SVG in the ink of the light theme, on white. */
  function standalone() {
    const svg = dialog.querySelector("svg").cloneNode(true);
    const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    svg.setAttribute("style", "color:#010203;background:#fff;font-family:sans-serif;" + (svg.getAttribute("style") || ""));
    return { text: new XMLSerializer().serializeToString(svg), width, height };
  }

  function download(url, kind) {
    const link = document.createElement("a");
    link.href = url;
    link.download = dialog.dataset.name + "." + kind;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }

  function save(kind) {
    const { text, width, height } = standalone();
    const url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    if (kind === "svg") return download(url, "svg");
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = 3 * width;
      canvas.height = 3 * height;
      const pen = canvas.getContext("2d");
      pen.fillStyle = "#fff";
      pen.fillRect(0, 0, canvas.width, canvas.height);
      pen.drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => download(URL.createObjectURL(blob), "png"));
      URL.revokeObjectURL(url);
    };
    image.src = url;
  }

  dialog.addEventListener("click", (event) => {
    const kind = event.target.dataset && event.target.dataset.save;
    if (kind) save(kind);
    else if (event.target === dialog) dialog.close();
  });

  // ---- sliders ----------------------------------------------------------------------------------------------------

  const inputs = (box) => [...box.querySelectorAll("input")];

  /* #explore-1a2b3c4d=2,0 sets that box, several are joined by & */
  function settings() {
    return new URLSearchParams(location.hash.slice(1));
  }

  function remember(event) {
    const box = event.target.closest(".explore");
    if (!box) return;
    const all = settings();
    for (const key of [...all.keys()]) if (!key.startsWith("explore-")) all.delete(key);
    all.set(box.id, inputs(box).map((input) => input.value).join(","));
    history.replaceState(null, "", "#" + decodeURIComponent(all.toString()));
  }

  function recall() {
    let first = null;
    for (const [id, values] of settings()) {
      const box = id.startsWith("explore-") && document.getElementById(id);
      if (!box) continue;
      values.split(",").forEach((value, i) => {
        const input = inputs(box)[i];
        if (input && Number(value) >= 0 && Number(value) <= Number(input.max)) input.value = value;
      });
      inputs(box)[0].dispatchEvent(new Event("input"));
      first = first || box;
    }
    if (first) first.scrollIntoView({ block: "center" });
  }

  // ---- formulas ---------------------------------------------------------------------------------------------------

  /* A formula in a sentence cannot break: one that is wider than its paragraph gets a line that scrolls. */
  function mendWide() {
    const inline = [...document.querySelectorAll("span.math mjx-container")];
    for (const formula of inline) formula.classList.remove("wide");
    const wide = inline.filter((formula) => {
      const block = formula.closest("p, li, td, dd, h1, h2, h3, h4, figcaption") || formula.parentElement;
      return !formula.closest("table") && formula.getBoundingClientRect().right > block.getBoundingClientRect().right + 1;
    });
    for (const formula of wide) formula.classList.add("wide");
  }

  // -----------------------------------------------------------------------------------------------------------------

  document.addEventListener("DOMContentLoaded", () => {
    // the theme looks for a list of contents that its pages do not have, and for a tenth of a section, even a long one
    Object.assign(document.body.dataset, { bsTarget: "nav.page-toc", bsThreshold: "0,0.1,0.5,1" });
    document.body.append(dialog);
    for (const drawing of document.querySelectorAll("svg.drawing")) {
      drawing.tabIndex = 0;
      drawing.addEventListener("click", () => enlarge(drawing));
      drawing.addEventListener("keydown", (event) => {
        if (event.key !== "Enter") return;
        event.preventDefault(); // or the same key presses Close
        enlarge(drawing);
      });
    }
    for (const box of document.querySelectorAll(".explore")) {
      for (const input of inputs(box)) input.addEventListener("input", remember);
    }
    recall();
    window.addEventListener("hashchange", recall);
    const typeset = window.MathJax && window.MathJax.startup && window.MathJax.startup.promise;
    if (typeset) Promise.all([typeset, document.fonts.ready]).then(mendWide);
    let width = window.innerWidth;
    window.addEventListener("resize", () => {
      if (window.innerWidth !== width) mendWide();
      width = window.innerWidth;
    });
  });
})();
