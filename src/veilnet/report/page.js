// Lets a table with the class "sortable" be sorted by its headings. Without it the page reads just the same.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];
  const value = (row, place) => {
    const text = row.cells[place].textContent;
    const number = parseFloat(row.cells[place].dataset.value ?? text);
    return Number.isNaN(number) ? text : number;
  };
  headings.forEach((heading, place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.textContent;
    heading.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = heading.getAttribute("aria-sort") !== "descending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].sort((one, other) => {
        const a = value(one, place), b = value(other, place);
        const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
        return down ? -order : order;
      });
      body.append(...rows);
    });
  });
}
