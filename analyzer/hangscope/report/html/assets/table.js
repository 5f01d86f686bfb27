// Tables that sort by their heads and filter; rows are made when they come into view.

const PAGE = 40;

// columns: {head, value(row) -> what is sorted by, cells(row) -> content or nothing for the value, figure, code, long: how they are set}
// filters: {label, options: [[value, words]] or nothing for a field of text, keep(row, value)}
class DataTable {
  constructor(caption, columns, rows, filters = []) {
    this.columns = columns;
    this.rows = rows;
    this.filters = filters.map((filter) => ({ ...filter, control: this.control(filter) }));
    this.sorted = null;
    this.direction = 1;
    this.amount = el("p", { class: "amount", role: "status" });
    this.body = el("tbody");
    this.heads = columns.map((column, index) => this.head(column, index));
    this.more = el("button", { type: "button", class: "more", onclick: () => this.grow() }, "Show more");
    const table = el("table", { class: "data" }, el("caption", { class: "aside" }, caption), el("thead", {}, el("tr", {}, this.heads)), this.body);
    this.element = el(
      "div",
      { class: "datatable" },
      filters.length
        ? el("div", { class: "filters", role: "search", "aria-label": caption }, this.filters.map((f) => el("label", {}, f.label, f.control)), this.amount)
        : null,
      el("div", { class: "wide", tabindex: "0", role: "group", "aria-label": caption }, table),
      this.more,
    );
    this.refresh();
  }

  control(filter) {
    if (!filter.options) {
      return el("input", { type: "search", size: filter.size || 8, oninput: () => this.refresh(), autocomplete: "off", spellcheck: "false" });
    }
    return el("select", { onchange: () => this.refresh() }, filter.options.map(([value, words]) => el("option", { value }, words)));
  }

  head(column, index) {
    const sort = el("button", { type: "button", onclick: () => this.sort(index) }, column.head, el("span", { class: "arrow", "aria-hidden": "true" }));
    return el("th", { scope: "col", class: column.figure ? "figure" : null, "aria-sort": "none" }, sort);
  }

  sort(index) {
    this.direction = this.sorted === index ? -this.direction : 1;
    this.sorted = index;
    this.heads.forEach((head, at) => {
      head.setAttribute("aria-sort", at !== index ? "none" : this.direction > 0 ? "ascending" : "descending");
    });
    this.refresh();
  }

  set(label, value) {
    const filter = this.filters.find((one) => one.label === label);
    filter.control.value = value;
    this.refresh();
  }

  refresh() {
    const active = this.filters.filter((filter) => filter.control.value.trim() !== "");
    let shown = this.rows.filter((row) => active.every((filter) => filter.keep(row, filter.control.value.trim())));
    if (this.sorted !== null) {
      const value = this.columns[this.sorted].value;
      // what is not known comes last, whichever way the rest is sorted
      const known = (one) => value(one) !== null && value(one) !== "";
      shown = [...shown].sort((a, b) => Number(known(b)) - Number(known(a)) || (known(a) ? this.direction * compare(value(a), value(b)) : 0));
    }
    this.shown = shown;
    this.amount.textContent = shown.length === this.rows.length ? counted(this.rows.length, "row") : `${grouped(shown.length)} of ${counted(this.rows.length, "row")}`;
    this.body.replaceChildren();
    this.grow();
  }

  grow() {
    const at = this.body.childElementCount;
    // each time as much as there is already: a thousand rows are a few clicks away
    const rows = this.shown.slice(at, at + Math.max(PAGE, at));
    this.body.append(...rows.map((row) => this.row(row)));
    const left = this.shown.length - at - rows.length;
    this.more.hidden = left <= 0;
    this.more.textContent = `Show ${grouped(Math.min(left, Math.max(PAGE, at + rows.length)))} more of ${grouped(left)}`;
  }

  row(row) {
    return el("tr", { class: row.wrong ? "wrong" : null }, this.columns.map((column, index) => {
      const content = column.cells ? column.cells(row) : column.value(row);
      const attributes = { class: ["figure", "code", "long"].filter((name) => column[name]).join(" ") || null, title: column.code ? content : null };
      return index === 0 ? el("th", { scope: "row", ...attributes }, content) : el("td", attributes, content);
    }));
  }
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

// A table inside a closed part of the page is made when the part is opened.
function lazily(id, make) {
  const part = document.getElementById(id);
  if (!part) return;
  part.hidden = false;
  part.addEventListener("toggle", () => part.open && part.childElementCount === 1 && part.append(make()));
}
