/* The reader's side of finding.py: the same spellings, all words wanted, and the sections that hold them. */

function plainSpelling(text) {
  const names = new Set(Object.values(LETTERS));
  return text
    .replace(/\\(?:var)?([A-Za-z]+)/g, (_, name) => (names.has(name.toLowerCase()) ? name : " "))
    .replace(/['’]s\b/g, "")
    .replace(/_\{\s*\{\s*(\w+)\s*\}\s*\}/g, "_$1")
    .replace(/_\s*\{\s*(\w+)\s*\}/g, "_$1")
    .replaceAll("^", "")
    .replace(/./gsu, (letter) => LETTERS[letter] || letter);
}

function splitQuery(query) {
  return plainSpelling(query).split(/[^\p{Letter}\p{Number}_]+/gu).filter((word) => word);
}

(() => {
  const English = Stemmer;
  Stemmer = function () {
    const english = new English();
    this.stemWord = (word) => (/^\p{Letter}{3,}$/u.test(word) ? english.stemWord(word) : word); // names have no plural
  };

  const has = (table, word) => (Object.hasOwn(table, word) ? [].concat(table[word]) : []);
  const starting = (table, word) =>
    word.length < 3 ? [] : Object.keys(table).filter((key) => key.startsWith(word)).flatMap((key) => table[key]);
  const stems = new Map();
  const stemmer = new Stemmer();
  function stem(word) {
    if (!stems.has(word)) stems.set(word, stemmer.stemWord(word.toLowerCase()));
    return stems.get(word);
  }
  const LISTS = ["chapters/appendix/claims", "chapters/appendix/errata", "chapters/appendix/bibliography"];

  /* Pages that hold every word; the pages that list everything come last, the notation first among equals. */
  Search.performTermsSearch = (searchTerms) => {
    const { terms, titleterms, docnames, titles, filenames } = Search._index;
    const points = new Map();
    const [first] = searchTerms;
    const named = first && (first.length < 4 || first.includes("_") || Object.values(LETTERS).includes(first));
    const symbol = searchTerms.size === 1 && named;
    for (const word of searchTerms) {
      const best = new Map();
      const give = (files, score) => files.forEach((file) => best.set(file, Math.max(score, best.get(file) || 0)));
      give(starting(terms, word), 2);
      give(has(terms, word), 6);
      give(starting(titleterms, word), 7);
      give(has(titleterms, word), 15);
      best.forEach((score, file) => points.set(file, [...(points.get(file) || []), score]));
    }
    return [...points]
      .filter(([, scores]) => scores.length === searchTerms.size)
      .map(([file, scores]) => {
        const name = docnames[file];
        let score = scores.reduce((sum, one) => sum + one, 0) / scores.length;
        const title = splitQuery(titles[file]).map(stem);
        if ([...searchTerms].every((word) => title.includes(word))) score += 10;
        if (LISTS.includes(name)) score -= 5;
        if (symbol && name.endsWith("/notation") && scores[0] > 5) score += 5;
        return [name, titles[file], "", null, score, filenames[file]];
      });
  };

  /* A visited page is not marked up: marks inside a formula's source would break the formula. */
  const parse = Search._parseQuery;
  Search._parseQuery = (query) => {
    const parsed = parse(query);
    localStorage.removeItem("sphinx_highlight_terms");
    return parsed;
  };

  if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false; // a file may not be fetched

  const KEPT = {
    cdot: "·", times: "×", top: "ᵀ", odot: "⊙", le: "≤", ge: "≥", sqrt: "√", sum: "Σ", in: "∈", dots: "…", cdots: "…",
    approx: "≈", to: "→",
  };
  const UNCHANGED = ["ln", "log", "exp", "max", "min", "sin", "cos"];

  function command(whole, name) {
    if (UNCHANGED.includes(name)) return `${name} `;
    const letter = Object.keys(LETTERS).find((key) => LETTERS[key] === name.toLowerCase());
    if (!letter) return KEPT[name] || "";
    return name[0] < "a" ? letter.toUpperCase() : letter.toLowerCase();
  }

  /* TeX as one would write it in a message: good enough for one line of a list. */
  const readable = (text) =>
    text
      .replace(/\\[()[\]]/g, "")
      .replace(/\\t?frac\s*(?:\{([^{}]*)\}\{([^{}]*)\}|(\d)(\d))/g, (_, a, b, c, d) => `${a || c}/${b || d}`)
      .replace(/\\(?:text|mathrm|operatorname)\{([^}]*)\}/g, "$1")
      .replace(/\\([a-z]+)(?![a-z])/gi, command)
      .replace(/\\[,;! ]/g, " ")
      .replace(/([_^])\{([^{}]*)\}/g, (_, sign, inner) => sign + (/^\w+$/.test(inner) ? inner : `(${inner})`))
      .replace(/\s+/g, " ")
      .trim();

  const line = (block) =>
    block.tagName === "TR"
      ? [...block.cells].map((cell) => cell.textContent.trim()).filter(Boolean).join(" · ")
      : block.textContent;

  /* Up to three sections of a page that hold the words, each with a link and a line. */
  Search.makeSearchSummary = (htmlText, keywords) => {
    const page = new DOMParser().parseFromString(htmlText, "text/html");
    const name = /DOCUMENTATION_OPTIONS\.pagename = '([^']+)'/.exec(htmlText);
    const article = page.querySelector("article.bd-article");
    if (!article || !name) return document.createTextNode("");
    const noise = ".headerlink, script, style, svg, .toc, .facts, [style*='display:none']";
    article.querySelectorAll(noise).forEach((element) => element.remove());
    const wanted = [...keywords];
    const held = (text) => {
      const there = splitQuery(text).flatMap((word) => [word, ...word.split("_")]).map(stem);
      return wanted.filter((word) => there.some((one) => one === word || (word.length > 2 && one.startsWith(word))));
    };
    const found = [];
    for (const section of article.querySelectorAll("section[id]")) {
      const title = section.querySelector("h1, h2, h3, h4");
      if (!title) continue;
      const blocks = [...section.querySelectorAll("p, li, dt, dd, tr, pre, caption, div.math")].filter(
        (block) =>
          block.closest("section") === section &&
          (block.tagName === "TR" || !(block.closest("tr") || block.querySelector("p, li, tr, pre"))),
      );
      const hits = blocks.map((block) => [held(block.textContent).length, block]).filter(([count]) => count);
      const all = new Set(hits.flatMap(([, block]) => held(block.textContent)).concat(held(title.textContent)));
      if (!all.size) continue;
      const rank = ([count, block]) => count - (block.tagName === "PRE" ? 0.5 : 0);
      hits.sort((a, b) => rank(b) - rank(a));
      const [best] = hits;
      found.push({
        id: section.id,
        title: title.textContent,
        size: all.size,
        rank: best ? rank(best) : 0,
        line: best ? line(best[1]) : "",
      });
    }
    found.sort((a, b) => b.size - a.size || b.rank - a.rank);
    const list = document.createElement("ul");
    list.className = "found";
    for (const section of found.slice(0, 3)) {
      const item = list.appendChild(document.createElement("li"));
      const link = item.appendChild(document.createElement("a"));
      link.href = `${document.documentElement.dataset.content_root}${name[1]}.html#${section.id}`;
      link.textContent = readable(section.title);
      const text = readable(section.line);
      const at = Math.max(0, ...wanted.map((word) => text.toLowerCase().indexOf(word) - 60));
      item.append(text ? ` ${at ? "… " : ""}${text.slice(at, at + 160)}${text.length > at + 160 ? " …" : ""}` : "");
    }
    return found.length ? list : document.createTextNode("");
  };
})();
