// What each rank called last, a column a call: ranks that went the same way are one row, and where it stops stands out.

const ROWS = 40;

// Ranks that stopped alike: how far back each one's evidence reaches does not tell them apart.
function alike(group, members) {
  const together = new Map();
  members.forEach((rank, at) => {
    const ends = group.calls.map((call) => {
      const state = call[4][at];
      if (state === DONE || state === UNKNOWN) return "";
      return state === DIFFERS ? `${state}${(call[5].find(([other]) => other === rank) || [])[1]}` : state;
    });
    const key = ends.join(",");
    if (!together.has(key)) together.set(key, []);
    together.get(key).push(at);
  });
  return [...together.values()];
}

// The state to show for ranks that stopped alike: what anybody knows of it.
function stateOf(call, positions) {
  for (const at of positions) if (call[4][at] !== UNKNOWN) return call[4][at];
  return UNKNOWN;
}

const weight = (group, positions) => Math.min(...group.calls.map((call) => WORSE.indexOf(stateOf(call, positions))));

// Place of the call that cannot complete among those of a group, -1 when there is none.
const frontier = (group) => group.calls.findIndex((call) => call[0] === group.stuck);

function timelineCell(group, call, members, positions) {
  const state = stateOf(call, positions);
  const word = CALL_WORDS[state];
  const instead = state === DIFFERS ? call[5].filter(([rank]) => members[positions[0]] === rank).map(([, what]) => `, called ${text(what)}`) : [];
  const starts = call[7].length ? positions.map((at) => call[7][at]).filter((start) => start !== null) : [];
  const when = starts.length ? `, ${clockOf(call[6] + Math.min(...starts) / 1000)}` : "";
  const hint = `${rankWords(positions.map((at) => members[at]))}: ${text(call[1])} ${call[0]} ${word}${instead.join("")}${when}`;
  return el("td", { "data-call": word, title: hint }, state === UNKNOWN ? null : state, el("span", { class: "aside" }, word));
}

function callHeads(group) {
  const stop = frontier(group);
  return group.calls.map((call, at) =>
    el("th", { scope: "col", class: at === stop ? "stop" : null, title: [`${text(call[1])} ${call[0]}`, text(call[2]), text(call[3])].filter(Boolean).join(", ") },
      el("span", { class: "upright" }, el("span", { class: "quiet" }, String(call[0])), ` ${text(call[1])}`)),
  );
}

// A group's table: heads, and what follows the name of a row; cellsOf(positions) gives it for some of the members.
function timelineTable(group, each, caption, heads, cellsOf) {
  const members = parseRanks(group.ranks);
  const rows = each ? members.map((_, at) => [at]) : alike(group, members);
  rows.sort((a, b) => weight(group, a) - weight(group, b) || a[0] - b[0]);
  const body = el("tbody");
  const more = el("button", { type: "button", class: "more" });
  const grow = () => {
    const at = body.childElementCount;
    body.append(...rows.slice(at, at + ROWS).map((positions) => {
      const who = positions.map((position) => members[position]);
      const label = rankWords(who, 24) + (who.length > 2 && foldRanks(who).length <= 24 ? ` (${grouped(who.length)})` : "");
      return el("tr", { "data-ranks": foldRanks(who) }, el("th", { scope: "row", title: foldRanks(who).slice(0, 400) }, label), cellsOf(positions, members));
    }));
    const left = rows.length - body.childElementCount;
    more.hidden = left <= 0;
    more.textContent = `Show more of ${counted(left, "row")}`;
  };
  more.addEventListener("click", grow);
  grow();
  const scroller = el("div", { class: "wide", tabindex: "0", role: "group", "aria-label": caption },
    el("table", { class: "timeline" }, el("caption", { class: "aside" }, caption), el("thead", {}, el("tr", {}, el("th", { scope: "col", class: "corner" }, "ranks"), heads)), body));
  return { part: el("div", {}, scroller, more), scroller };
}

function byCall(group, each) {
  return timelineTable(group, each, `Calls of group ${groupName(group.name, group.about)}, oldest first`, callHeads(group), (positions, members) =>
    group.calls.map((call) => timelineCell(group, call, members, positions)));
}

function groupPart(group, open) {
  const stop = frontier(group);
  const size = group.size === null ? "" : ` of ${counted(group.size, "rank")}`;
  const stands = stop < 0 ? "" : ` \u2013 stops at ${text(group.calls[stop][1])} ${group.calls[stop][0]}`;
  const earlier = [[group.leftOut, "earlier call"], [group.beyond, "later call"]].filter(([number]) => number)
    .map(([number, noun]) => ` \u00b7 ${counted(number, noun)} not shown`).join("");
  const part = el("details", { class: "group", "data-ranks": group.ranks },
    el("summary", {}, el("strong", {}, `group ${groupName(group.name, group.about)}`), `${size}${stands}`, el("span", { class: "quiet" }, earlier)));
  const holder = el("div");
  const each = el("input", { type: "checkbox", onchange: () => draw() });
  const timed = el("input", { type: "checkbox", onchange: () => draw() });
  const draw = () => {
    const { part: drawn, scroller } = (timed.checked ? byTime : byCall)(group, each.checked);
    holder.replaceChildren(drawn);
    if (chosen !== null) choose(chosen);
    scroller.scrollLeft = scroller.scrollWidth;
  };
  part.addEventListener("toggle", () => {
    if (!part.open || holder.childElementCount) return;
    if (parseRanks(group.ranks).length > 1) part.append(el("label", { class: "each" }, each, " one row a rank"));
    if (period(group)) part.append(el("label", { class: "each", title: "a mark a call, from the first to the last of a row's ranks to come" }, timed, " by time"));
    part.append(holder);
    draw();
  });
  part.open = open;
  return part;
}

function showTimeline() {
  const box = document.getElementById("timeline");
  if (!box || !data.groups.length) return;
  const stuck = data.groups.filter((group) => frontier(group) >= 0);
  const rest = data.groups.filter((group) => frontier(group) < 0);
  const present = new Set(data.groups.flatMap((group) => group.calls.flatMap((call) => [...new Set(call[4])])));
  const key = data.callStates.filter(([glyph]) => present.has(glyph) && glyph !== UNKNOWN).map(([glyph, word, meaning]) =>
    el("li", { title: meaning }, el("span", { class: "state", "data-call": word }, el("span", { class: "glyph", "aria-hidden": "true" }, glyph), word)));
  box.append(el("h3", {}, "Timeline ", el("span", { class: "quiet" }, "a column a call, the last one on the right")), el("ul", { class: "legend" }, key));
  stuck.forEach((group, at) => box.append(groupPart(group, at < 2)));
  if (rest.length) {
    const others = el("details", {}, el("summary", {}, stuck.length ? `${counted(rest.length, "group")} without a stuck call` : counted(rest.length, "group")));
    rest.forEach((group) => others.append(groupPart(group, false)));
    box.append(others);
  }
  if (data.groupsLeftOut) box.append(el("p", { class: "quiet" }, `${counted(data.groupsLeftOut, "more group")} not shown`));
  box.hidden = false;
}
