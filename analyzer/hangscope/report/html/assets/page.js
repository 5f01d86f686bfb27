// What the page as a whole does: theme, copying, links to lines, printing.

function showTheme() {
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const label = () => {
    button.textContent = isDark() ? "Light" : "Dark";
  };
  // a file opened from disk may have no storage
  try {
    const kept = localStorage.getItem("hangscope-theme");
    if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  } catch { /* the choice then lasts as long as the page */ }
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("hangscope-theme", root.dataset.theme);
    } catch { /* as above */ }
    label();
  });
  system.addEventListener("change", label);
  label();
  button.hidden = false;
}

async function copyText(element) {
  try {
    await navigator.clipboard.writeText(element.textContent);
    return true;
  } catch {
    const range = document.createRange();
    range.selectNodeContents(element);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    return document.execCommand("copy");
  }
}

function showCopying() {
  for (const button of document.querySelectorAll(".copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const done = await copyText(button.parentElement.querySelector("code"));
      button.textContent = done ? "Copied" : "Press Ctrl+C";
      setTimeout(() => {
        button.textContent = "Copy";
      }, 1500);
    });
  }
}

// A link may point into a part that is closed.
function openTarget() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let part = target.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  target.scrollIntoView();
}

function openForPrinting() {
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")].filter((part) => part.id !== "rank-table" && part.id !== "input-table");
    for (const part of opened) part.open = true;
  });
  addEventListener("afterprint", () => {
    for (const part of opened) part.open = false;
  });
}

// what one part cannot draw must not keep the others from being drawn
for (const show of [showTheme, showCopying, showGrid, showChosen, showTimeline, showCalls, showRankTable, showInputs, openForPrinting, openTarget]) {
  try {
    show();
  } catch (error) {
    console.error(error);
  }
}
addEventListener("hashchange", openTarget);
document.documentElement.dataset.ready = "yes";
