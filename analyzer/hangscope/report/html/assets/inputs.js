// Tables that few readers open: all ranks, all files.

function showRankTable() {
  lazily("rank-table", () => {
    const rows = [...ranks.values()].map((one) => ({ ...one, wrong: one.blamed }));
    const states = [...new Set(rows.map((row) => row.state))];
    const columns = [
      { head: "rank", value: (row) => row.rank, figure: true },
      { head: "host", value: (row) => row.host },
      { head: "gpu", value: (row) => row.gpu },
      { head: "pid", value: (row) => row.pid, cells: (row) => row.pid ?? "", figure: true },
      { head: "state", value: (row) => row.state, cells: (row) => stateMark(row.state) },
      { head: "last seen", value: (row) => row.seen, cells: (row) => row.seen.replace("T", " ") },
      { head: "where", value: (row) => row.where, code: true },
    ];
    return new DataTable("All ranks", columns, rows, [
      { label: "State", options: [["", "all"], ...states.map((word) => [word, word])], keep: (row, value) => row.state === value },
      { label: "Text", size: 14, keep: (row, value) => [`rank ${row.rank}`, row.host, row.pid, row.where].join(" ").toLowerCase().includes(value.toLowerCase()) },
    ]).element;
  });
}

function showInputs() {
  lazily("input-table", () => {
    const rows = data.sources.map(([file, kind, lines, bytes, strange, error]) => ({ file, kind, lines, bytes, strange, error, wrong: error !== "" }));
    const columns = [
      { head: "file", value: (row) => row.file, code: true },
      { head: "kind", value: (row) => row.kind },
      { head: "lines", value: (row) => row.lines, cells: (row) => grouped(row.lines), figure: true },
      { head: "bytes", value: (row) => row.bytes, cells: (row) => grouped(row.bytes), figure: true },
      { head: "not understood", value: (row) => row.strange, cells: (row) => (row.strange ? grouped(row.strange) : ""), figure: true },
      rows.some((row) => row.error) && { head: "error", value: (row) => row.error, long: true },
    ].filter(Boolean);
    return new DataTable("All files", columns, rows, [{ label: "Text", size: 14, keep: (row, value) => `${row.file} ${row.kind} ${row.error}`.toLowerCase().includes(value.toLowerCase()) }]).element;
  });
}
