// Tables that sort and filter, of whatever people wrote: it is put into the page as text (`textContent`,
// or DataTables' escaping), never as HTML.

const theme = matchMedia("(prefers-color-scheme: dark)")
const useTheme = () => document.documentElement.classList.toggle("dark", theme.matches) // DataTables' own
useTheme()
theme.addEventListener("change", useTheme)

const element = id => document.getElementById(id)
const unique = values => [...new Set(values)]
const shown = (value, digits = 2) => (value === null || value === undefined ? "–" : value.toFixed(digits))

function made(tag, text = "", attributes = {}) {
  const node = document.createElement(tag)
  node.textContent = text
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value)
  return node
}

// `options`: values, or [value, words]
function fill(select, options, chosen) {
  select.replaceChildren(
    ...options.map(option => (Array.isArray(option) ? made("option", option[1], { value: option[0] }) : made("option", option, { value: option }))),
  )
  if (chosen !== undefined) select.value = chosen
}

// -- tables

const escaped = DataTable.render.text().display

// a column: its heading, the value that is shown, and the one that it is sorted by
const column = (title, value, order = value, className = "") => ({
  title,
  className,
  data: null,
  render: (_, type, row) => (type === "sort" || type === "type" ? order(row) ?? -Infinity : escaped(value(row))),
})
const numeric = (title, key, digits = 2) => column(title, row => shown(row[key], digits), row => row[key], "dt-right")

function table(id, columns, rows, order, paged = true) {
  const isSmall = !paged || (rows.length > 0 && rows.length <= 10) // one sees all of it
  return new DataTable(`#${id}`, {
    data: rows,
    columns,
    order,
    autoWidth: false, // rows come later: it would measure an empty table
    pageLength: 25,
    lengthMenu: [10, 25, 100, { label: "all", value: -1 }],
    layout: isSmall ? { topStart: null, topEnd: null, bottomStart: null, bottomEnd: null } : { topStart: null, topEnd: "search", bottomStart: "info", bottomEnd: ["pageLength", "paging"] },
    paging: !isSmall,
  })
}
