// Every collective call of every group: who came, who did not, since when, how far apart.

// the states of a call by the character that stands for each, worst first
const WORSE = data.callStates.map(([glyph]) => glyph);
const CALL_WORDS = Object.fromEntries(data.callStates);
const glyphOf = (word) => WORSE.find((glyph) => CALL_WORDS[glyph] === word);
const [MISSING, DIFFERS, WAITING, DONE, UNKNOWN] = ["missing", "differs", "waiting", "done", "unknown"].map(glyphOf);
const NOT_THERE = [DIFFERS, UNKNOWN, glyphOf("not reached")];
const STUCK = [MISSING, DIFFERS, WAITING];

function callRows() {
  const rows = [];
  const known = new Set();
  for (const group of data.groups) {
    const members = parseRanks(group.ranks);
    for (const call of group.calls) {
      rows.push(rowOfCall(group, members, call));
      known.add(`${group.name} ${call[0]} ${call[1]}`);
    }
  }
  for (const [group, about, size, seq, op, where, arrived, missing, differing] of data.stuck) {
    if (known.has(`${group} ${seq} ${op}`)) continue;
    const [came, gone] = [parseRanks(arrived), parseRanks(missing)];
    const other = differing.map(([rank]) => rank);
    rows.push({
      group: groupName(group, about), seq, op: text(op), size: "", where: text(where), of: size,
      state: gone.length ? "missing" : other.length ? "differs" : "waiting", arrived: came, missing: gone,
      differing, ranks: new Set([...came, ...gone, ...other]), first: null, spread: null, last: null, wrong: true, stuck: true,
    });
  }
  const abouts = new Map([...data.stuck.map(([group, about]) => [group, about]), ...data.groups.map((group) => [group.name, group.about])]);
  for (const one of data.transfers) rows.push(rowOfTransfer(one, abouts.get(one[0])));
  // the calls that cannot complete come first, then all others that wait
  return rows.sort((a, b) => Number(b.stuck || false) - Number(a.stuck || false) || Number(b.wrong) - Number(a.wrong));
}

const groupName = (name, about) => text(name) + (text(about) && text(about) !== text(name) ? ` (${text(about)})` : "");

function rowOfCall(group, members, [seq, op, size, where, states, differing, first, starts]) {
  const arrived = [], missing = [];
  let worst = WORSE.length - 1;
  for (let at = 0; at < members.length; at += 1) {
    worst = Math.min(worst, WORSE.indexOf(states[at]));
    if (states[at] === MISSING) missing.push(members[at]);
    else if (!NOT_THERE.includes(states[at])) arrived.push(members[at]);
  }
  const known = starts.filter((start) => start !== null);
  const spread = known.length > 1 ? Math.max(...known) : null;
  return {
    group: groupName(group.name, group.about), seq, op: text(op), size: text(size), where: text(where), of: group.size,
    state: CALL_WORDS[WORSE[worst]], arrived, missing, differing, ranks: new Set(members), first, spread,
    last: spread ? members[starts.indexOf(spread)] : null, wrong: seq === group.stuck || STUCK.includes(WORSE[worst]), stuck: seq === group.stuck,
  };
}

function rowOfTransfer([group, seq, op, rank, peer, size, where, state, started], about) {
  return {
    group: about === undefined ? text(group) : groupName(group, about), seq, op: text(op), size: text(size), where: text(where),
    of: null, state: CALL_WORDS[state], arrived: [rank], missing: [], differing: [],
    pair: `rank ${rank} ${text(op) === "send" ? "to" : "from"} ${peer === null ? "unknown" : peer}`,
    ranks: new Set(peer === null ? [rank] : [rank, peer]), first: started, spread: null, last: null, wrong: state === WAITING,
  };
}

function whoIsWrong(row) {
  const parts = [];
  if (row.missing.length) parts.push(`${rankWords(row.missing, 30)} missing`);
  const calls = new Map();
  for (const [rank, call] of row.differing) calls.set(call, [...(calls.get(call) || []), rank]);
  for (const [call, who] of calls) parts.push(`${rankWords(who, 30)} called ${text(call)}`);
  return parts.join("; ");
}

function showCalls() {
  const box = document.getElementById("calls");
  if (!box) return;
  const rows = callRows();
  if (!rows.length) return;
  const groups = [...new Set(rows.map((row) => row.group))].sort((a, b) => compare(a, b));
  const present = WORSE.map((glyph) => CALL_WORDS[glyph]).filter((word) => rows.some((row) => row.state === word));
  const has = (pick) => rows.some((row) => pick(row));
  const columns = [
    { head: "seq", value: (row) => row.seq, figure: true },
    { head: "op", value: (row) => row.op, code: true },
    { head: "group", value: (row) => row.group },
    { head: "state", value: (row) => WORSE.indexOf(glyphOf(row.state)), cells: (row) => callMark(row.state) },
    { head: "came", value: (row) => row.arrived.length, cells: cameWords },
    has((row) => whoIsWrong(row)) && { head: "missing or different", value: (row) => row.missing.length + row.differing.length || null, cells: whoIsWrong, long: true },
    has((row) => row.first !== null) && { head: "first came", value: (row) => row.first, cells: (row) => (row.first === null ? "" : clockOf(row.first)), figure: true },
    has((row) => row.spread !== null) && { head: "apart", value: (row) => row.spread, cells: (row) => (row.spread === null ? "" : `${durationOf(row.spread)}${row.last === null ? "" : `, rank ${row.last} last`}`) },
    has((row) => row.where) && { head: "where", value: (row) => row.where, code: true },
    has((row) => row.size) && { head: "size", value: (row) => row.size },
  ].filter(Boolean);
  const table = new DataTable("Calls of every group", columns, rows, [
    { label: "Rank", size: 5, keep: (row, value) => row.ranks.has(Number(value)) },
    { label: "Group", options: [["", "all"], ...groups.map((name) => [name, name])], keep: (row, value) => row.group === value },
    { label: "State", options: [["", "all"], ["wrong", "not done"], ...present.map((word) => [word, word])], keep: (row, value) => (value === "wrong" ? row.state !== "done" && row.state !== "unknown" : row.state === value) },
    { label: "Text", size: 14, keep: (row, value) => contains(row, value.toLowerCase()) },
  ]);
  whenChosen((rank) => table.set("Rank", rank === null ? "" : String(rank)));
  box.append(el("h3", {}, "All calls"), table.element);
  box.hidden = false;
}

const cameWords = (row) => row.pair || grouped(row.arrived.length) + (row.of ? ` of ${grouped(row.of)}` : "");
const contains = (row, value) => [row.seq, row.op, row.group, row.state, row.size, row.where, row.pair, whoIsWrong(row)].join(" ").toLowerCase().includes(value);
const callMark = (word) => el("span", { class: "state", "data-call": word }, el("span", { class: "glyph", "aria-hidden": "true" }, glyphOf(word).trim() || "?"), word);
