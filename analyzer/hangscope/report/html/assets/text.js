// Elements, rank ranges and times. Text becomes text nodes only: nothing on this page parses markup.

const data = JSON.parse(document.getElementById("data").textContent);
const text = (number) => data.strings[number];

// el("td", {class: "figure", hidden: true}, "5"): an element with attributes and children; null children are left out.
function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

// "0-3,8-24:8" as [0, 1, 2, 3, 8, 16, 24]
function parseRanks(span) {
  const ranks = [];
  for (const part of span ? span.split(",") : []) {
    const [, first, last, step] = /^(\d+)(?:-(\d+))?(?::(\d+))?$/.exec(part) || [];
    for (let rank = Number(first); rank <= Number(last || first); rank += Number(step || 1)) ranks.push(rank);
  }
  return ranks;
}

// [0, 1, 2, 3, 6] as "0-3,6"
function foldRanks(ranks) {
  const sorted = [...ranks].sort((a, b) => a - b);
  const parts = [];
  for (let at = 0; at < sorted.length; ) {
    let end = at;
    while (end + 1 < sorted.length && sorted[end + 1] === sorted[end] + 1) end += 1;
    const between = end === at + 1 ? "," : "-";
    parts.push(end === at ? `${sorted[at]}` : `${sorted[at]}${between}${sorted[end]}`);
    at = end + 1;
  }
  return parts.join(",");
}

const grouped = (number) => number.toLocaleString("en-US");
const counted = (number, noun) => `${grouped(number)} ${noun}${number === 1 ? "" : "s"}`;

function rankWords(ranks, most = 40) {
  if (ranks.length === 0) return "no rank";
  const numbers = foldRanks(ranks);
  if (ranks.length === 1) return `rank ${numbers}`;
  return numbers.length > most ? counted(ranks.length, "rank") : `ranks ${numbers}`;
}

// Seconds as if UTC, since logs do not say their zone: "12:03:07.250"
function clockOf(seconds) {
  const moment = new Date(seconds * 1000);
  return Number.isNaN(moment.valueOf()) ? "" : moment.toISOString().slice(11, 23);
}

function durationOf(milliseconds) {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${Number(seconds.toPrecision(3))} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}
