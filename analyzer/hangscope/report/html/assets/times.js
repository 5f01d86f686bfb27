// When the ranks made their calls: a strip a row, a mark a call, as long as it took until the last of the row's ranks came.

const SVG = "http://www.w3.org/2000/svg";
const STRIP = { width: 1000, height: 20 };

// First and last start of a group's calls in milliseconds, null where no two are known.
function period(group) {
  let [from, to] = [Infinity, -Infinity];
  for (const [, , , , , , first, starts] of group.calls) {
    for (const start of starts) {
      if (start === null) continue;
      from = Math.min(from, first * 1000 + start);
      to = Math.max(to, first * 1000 + start);
    }
  }
  return from < to ? [from, to] : null;
}

function draw(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function strip(group, members, positions, [from, to]) {
  const place = (moment) => ((moment - from) / (to - from)) * (STRIP.width - 4);
  const who = rankWords(positions.map((at) => members[at]));
  const svg = draw("svg", { viewBox: `0 0 ${STRIP.width} ${STRIP.height}`, preserveAspectRatio: "none", role: "img" });
  let last = null;
  for (const call of group.calls) {
    const starts = call[7].length ? positions.map((at) => call[7][at]).filter((start) => start !== null) : [];
    if (!starts.length) continue;
    const [begin, end] = [call[6] * 1000 + Math.min(...starts), call[6] * 1000 + Math.max(...starts)];
    const mark = draw("rect", { x: place(begin), y: 2, width: Math.max(4, place(end) - place(begin)), height: STRIP.height - 4, "data-call": CALL_WORDS[stateOf(call, positions)] });
    const hint = draw("title", {});
    hint.textContent = `${who}: ${text(call[1])} ${call[0]} at ${clockOf(begin / 1000)}${end > begin ? ` to ${clockOf(end / 1000)}` : ""}, ${CALL_WORDS[stateOf(call, positions)]}`;
    mark.append(hint);
    svg.append(mark);
    last = begin;
  }
  svg.setAttribute("aria-label", last === null ? `${who}: no time is known` : `${who}: last call at ${clockOf(last / 1000)}`);
  return el("td", { class: "strip" }, svg);
}

function byTime(group, each) {
  const span = period(group);
  const [from, to] = span;
  const clocks = [from, (from + to) / 2, to].map((moment) => el("span", {}, clockOf(moment / 1000)));
  const head = el("th", { scope: "col", class: "axis" }, el("div", {}, clocks));
  return timelineTable(group, each, `When the calls of group ${groupName(group.name, group.about)} were made`, [head], (positions, members) =>
    [strip(group, members, positions, span)]);
}
