// The ranks as a grid of hosts by GPUs. Choosing one shows the rest of the page from its side.

const ranks = new Map(
  data.ranks.map(([rank, host, gpu, pid, state, where, seen, blamed]) => [
    rank,
    { rank, host: text(host), gpu: text(gpu), pid, state, where: text(where), seen, blamed: blamed === 1 },
  ]),
);

let chosen = null;
const listeners = [];
const whenChosen = (listener) => listeners.push(listener);

function choose(rank) {
  chosen = rank;
  for (const listener of listeners) listener(rank);
}

// What an element with data-ranks is about; ranges are read once.
const spans = new WeakMap();
function isAbout(element, rank) {
  if (!spans.has(element)) spans.set(element, new Set(parseRanks(element.dataset.ranks)));
  return spans.get(element).has(rank);
}

function wordsOf(one) {
  return [
    `rank ${one.rank}`,
    one.host && `host ${one.host}`,
    one.gpu && `GPU ${one.gpu}`,
    one.pid !== null && `pid ${one.pid}`,
    one.state + (one.blamed ? ", at fault" : ""),
    one.where && `at ${one.where}`,
    one.seen && `last seen ${one.seen.replace("T", " ")}`,
  ].filter(Boolean);
}

function stateMark(word) {
  const [glyph] = data.states[word] || data.states.unknown;
  return el("span", { class: "state", "data-state": word }, el("span", { class: "glyph", "aria-hidden": "true" }, glyph), word);
}

function gridCell(rank) {
  const one = ranks.get(rank);
  const [glyph] = data.states[one.state] || data.states.unknown;
  return el(
    "button",
    {
      type: "button",
      class: one.blamed ? "cell blamed" : "cell",
      "data-state": one.state,
      "data-rank": rank,
      tabindex: "-1",
      "aria-label": wordsOf(one).join(", "),
      "aria-pressed": "false",
    },
    glyph,
  );
}

function gridRow([label, cells, more]) {
  const name = text(label) || rankWords(cells.filter((rank) => rank !== null));
  const row = el("div", { class: "hostrow", role: "row" }, el("span", { class: "hostname", role: "rowheader", title: name }, name));
  for (const rank of cells) {
    row.append(el("span", { role: "gridcell" }, rank === null ? null : gridCell(rank)));
  }
  if (more) row.append(el("span", { class: "more-alike" }, `and ${counted(more, "row")} alike`));
  return row;
}

// Arrow keys move between cells; one cell alone is in the order of Tab.
function moveInGrid(grid, key) {
  const rows = [...grid.querySelectorAll(".hostrow")].map((row) => [...row.querySelectorAll("[role=gridcell]")].map((cell) => cell.firstChild));
  const at = document.activeElement;
  let y = rows.findIndex((row) => row.includes(at));
  let x = y < 0 ? -1 : rows[y].indexOf(at);
  if (y < 0) return null;
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[key];
  if (key === "Home") return rows[y].find(Boolean);
  if (key === "End") return rows[y].filter(Boolean).at(-1);
  if (!step) return null;
  while (true) {
    y += step[0];
    x += step[1];
    if (y < 0 || y >= rows.length || x < 0 || (step[1] && x >= rows[y].length)) return null;
    if (rows[y][x]) return rows[y][x];
  }
}

function showGrid() {
  const box = document.getElementById("grid");
  if (!box) return;
  const about = el("p", { class: "about" });
  const grid = el(
    "div",
    { class: "grid", role: "grid", "aria-label": "Ranks by host and GPU" },
    data.grid.rows.map((row) => gridRow(row)),
  );
  const longest = Math.max(...[...grid.querySelectorAll(".hostname")].map((name) => name.textContent.length));
  grid.style.setProperty("--name", `${Math.min(longest, data.grid.rows.some((row) => row[2]) ? 34 : 18)}ch`);
  grid.style.setProperty("--cells", data.grid.columns);
  const blamed = data.ranks.some((row) => row[7] === 1);
  const hint = `${blamed ? "Ringed: at fault. " : ""}Point at a rank to see what is known of it; choose it to see the page from its side.`;
  const tell = (rank) => about.replaceChildren(...tellOf(rank));
  const tellOf = (rank) => {
    const one = rank === null ? null : ranks.get(rank);
    return one ? [el("strong", {}, `rank ${one.rank}`), ` ${wordsOf(one).slice(1).join(" \u00b7 ")}`] : [hint];
  };
  const cellOf = (event) => event.target.closest("[data-rank]");
  grid.addEventListener("pointerover", (event) => cellOf(event) && tell(Number(cellOf(event).dataset.rank)));
  grid.addEventListener("pointerleave", () => tell(chosen));
  grid.addEventListener("focusin", (event) => cellOf(event) && tell(Number(cellOf(event).dataset.rank)));
  grid.addEventListener("click", (event) => {
    if (!cellOf(event)) return;
    const rank = Number(cellOf(event).dataset.rank);
    choose(rank === chosen ? null : rank);
  });
  grid.addEventListener("keydown", (event) => {
    const next = moveInGrid(grid, event.key);
    if (!next) return;
    event.preventDefault();
    grid.querySelector('[tabindex="0"]')?.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
  const first = grid.querySelector(".blamed") || grid.querySelector("[data-rank]");
  first?.setAttribute("tabindex", "0");
  whenChosen((rank) => {
    grid.querySelector('[aria-pressed="true"]')?.setAttribute("aria-pressed", "false");
    grid.querySelector(`[data-rank="${rank}"]`)?.setAttribute("aria-pressed", "true");
    tell(rank);
  });
  tell(null);
  box.append(grid, about);
  box.hidden = false;
}

// The bar that says which rank is chosen, and what is put aside for it.
function showChosen() {
  const bar = document.getElementById("chosen");
  const clear = el("button", { type: "button", onclick: () => choose(null) }, "Show all");
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && chosen !== null) choose(null);
  });
  whenChosen((rank) => {
    document.body.classList.toggle("choosing", rank !== null);
    for (const element of document.querySelectorAll("[data-ranks]")) {
      element.classList.toggle("aside-now", rank !== null && !isAbout(element, rank));
    }
    bar.hidden = rank === null;
    if (rank !== null) {
      bar.replaceChildren(el("strong", {}, `Rank ${rank}`), ` ${wordsOf(ranks.get(rank)).slice(1).join(" \u00b7 ")} `, clear);
    }
  });
}
