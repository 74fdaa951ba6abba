// What a reader's choices do. `tables.js` and `figures.js` stand before it. All that people wrote is put into the page
// as text (`textContent`, or DataTables' escaping), never as HTML.

const data = JSON.parse(document.getElementById("data").textContent)
const NOISE = -1
const GREY = "#999999"
const COLOURS = data.colors // with the marks, 45 groups that colour-blind eyes tell apart
const MARKS = ["circle", "square", "triangle-up", "diamond", "triangle-down"]
const CROSS = "x-thin"
const ORANGE = "#d55e00" // stands out for colour-blind eyes too
const ALL = "all"
const LISTED = 50 // texts of a list
// two digits that say something, be it milliseconds or minutes
const seconds = value => (value === null ? "–" : value.toPrecision(2).replace(/e.*/, "") === String(value) ? String(value) : String(Number(value.toPrecision(2))))

// -- leaderboard, and score against cost

const first = row => (row.place === "–" || row.place === "-" ? 1e6 : Number(row.place.split("-")[0]))
const board = table(
  "board",
  [
    column("#", row => row.place, first),
    column("model", row => row.name),
    column("method", row => row.method),
    column("level", row => row.level),
    column("protocol", row => row.protocol),
    numeric("score", "score"),
    column("95 % interval", row => row.interval, row => row.score, "dt-nowrap"),
    numeric("sd", "sd"),
    column("seeds", row => String(row.seeds), row => row.seeds),
    column("encoding, s", row => seconds(row.encoding), row => row.encoding, "dt-right"),
    column("clustering, s", row => seconds(row.clustering), row => row.clustering, "dt-right"),
    column("memory, MB", row => shown(row.memory, 0), row => row.memory, "dt-right"),
  ],
  data.board,
  [[5, "desc"]],
)
const levels = unique(data.board.map(row => row.level))
const protocols = unique(data.board.map(row => row.protocol))
const counted = protocols.map(name => [data.board.filter(row => row.protocol === name && row.best).length, name])
fill(element("level"), levels)
fill(element("protocol"), protocols, counted.sort((a, b) => b[0] - a[0])[0]?.[1])
fill(element("model"), [ALL, ...unique(data.board.map(row => row.model)).sort()])

function chosenRows() {
  const [level, protocol, model] = ["level", "protocol", "model"].map(id => element(id).value)
  return data.board.filter(
    row => row.level === level && row.protocol === protocol && (model === ALL || row.model === model),
  )
}

function drawBoard() {
  const every = element("every").checked
  board.clear().rows.add(chosenRows().filter(row => every || row.best)).draw()
  drawCost()
}

function drawCost() {
  const rows = chosenRows().filter(row => row.seconds !== null && row.score !== null)
  const models = unique(data.board.map(row => row.model))
  const groups = rows.map(row => models.indexOf(row.model))
  const xs = rows.map(row => Math.max(row.seconds, 1e-4))
  const ys = rows.map(row => row.score)
  const front = rows.flatMap((row, i) => (row.front ? [i] : [])).sort((i, j) => xs[i] - xs[j])
  const tips = rows.map((row, i) => tip(`${row.name} with ${row.method}`, `score ${shown(row.score)}`, `${shown(xs[i], 3)} seconds`))
  element("cost-figure").hidden = !rows.length
  draw("cost-figure", 380, frame(xs, ys, true), [
    { mode: "lines", x: front.map(i => xs[i]), y: front.map(i => ys[i]), line: { shape: "hv", color: ORANGE, width: 2 }, hoverinfo: "skip" },
    points(xs, ys, tips, { size: 10, color: groups.map(colourOf), symbol: groups.map(markOf), opacity: rows.map(row => (row.front ? 1 : 0.35)) }),
  ], { xaxis: { type: "log", title: "seconds for 1,000 texts, encoding and clustering" }, yaxis: { title: "score x100" } })
  element("cost-legend").replaceChildren(...legend(models, models.map((model, i) => i)))
  const [level, protocol] = ["level", "protocol"].map(id => element(id).value)
  const bargain = data.bargains.find(found => found.level === level && found.protocol === protocol)
  element("bargain").textContent = rows.length ? bargain?.text ?? "" : "The cost of these was not measured."
}

// -- figures

const BUTTONS = ["zoomIn2d", "zoomOut2d", "resetScale2d"]
const WIDTH = 48 // characters of a tooltip's line
const ALPHA = 0.8
const NEAR = 8 // pixels: as far as that, the mouse is at a text

// plotly takes what it shows for HTML, and wraps nothing
const plain = text => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;")
const wrapped = text => text.match(new RegExp(`.{1,${WIDTH}}(?:\\s|$)|.{1,${WIDTH}}`, "gsu")) ?? []
const tip = (head, ...lines) => [...wrapped(head).map(line => `<b>${plain(line)}</b>`), ...lines.flatMap(wrapped).map(plain)].join("<br>")

const points = (x, y, tips, marker, more = {}) => ({ mode: "markers", x, y, hovertext: tips, hoverinfo: "text", marker: { line: { width: 0 }, ...marker }, ...more })

// draws a figure anew; `range` from `frame`
function draw(id, height, range, traces, { xaxis = {}, yaxis = {}, ...layout }, buttons = [], config = {}) {
  const axis = (own, range) => ({ ...AXIS, ...own, range, title: titled(own.title) })
  return Plotly.newPlot(id, traces, {
    ...LOOKS, height, xaxis: axis(xaxis, range.x), yaxis: axis(yaxis, range.y),
    showlegend: false, dragmode: element(id).layout?.dragmode ?? "pan", ...layout,
  }, { ...CONFIG, displayModeBar: true, modeBarButtons: [["pan2d", ...buttons, ...BUTTONS]], ...config })
}

// ranges that hold these values with a margin, and how many values they do not hold; `cut` leaves out that
// share of them at both ends
function frame(xs, ys, log = false, cut = 0) {
  const [left, right] = limits(xs, log, cut)
  const [low, high] = limits(ys, false, cut)
  const outside = xs.filter((x, i) => x < left || x > right || ys[i] < low || ys[i] > high).length
  return { x: log ? [Math.log10(left), Math.log10(right)] : [left, right], y: [low, high], outside }
}

function limits(values, log, cut) {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b)
  if (!sorted.length) return [1, 10]
  const at = share => sorted[Math.round(share * (sorted.length - 1))]
  const [low, high] = [at(cut), at(1 - cut)]
  if (log) return [low / 1.3, high * 1.3]
  const margin = (cut ? 0.2 : 0.08) * (high - low) || 1
  return [low - margin, high + margin]
}

// -- maps

const SIDES = ["left", "right"]
const NAMED = 20 // groups whose names stand on a map
const LONGEST = 24 // characters of these
const colourOf = group => (group === NOISE || group === undefined ? GREY : COLOURS[group % COLOURS.length])
const markOf = group => (group === NOISE || group === undefined ? CROSS : MARKS[Math.floor(group / COLOURS.length) % MARKS.length])
const view = () => data.views[Number(element("view").value) || 0]
const seenBy = id => view()?.models[Number(element(id).value) || 0]
const className = (on, i) => on.classes[i] ?? ""
// the class that most texts of a cluster have: the assignment of the diagonal may give it another one
const most = (seen, cluster) => {
  const j = seen.columns?.indexOf(cluster) ?? -1
  if (j < 0) return undefined
  const column = seen.counts.map(row => row[j])
  return seen.rows[column.indexOf(Math.max(...column))]
}
const clusterName = (on, seen, cluster) => {
  if (cluster === NOISE) return "noise"
  const main = most(seen, cluster)
  return main === undefined ? `cluster ${cluster}` : `cluster ${cluster}, mostly ${on.classes[main]}`
}

// a group's number among the colours: a cluster takes that of the class it stands for
const shade = (on, seen, cluster) => {
  if (cluster === NOISE) return NOISE
  return seen.match?.[cluster] ?? on.classes.length + Number(cluster)
}

let selected = [] // positions of texts

function drawMap(side) {
  const on = view()
  const seen = seenBy(`${side}-model`)
  if (!seen) return
  const by = on.gold.length ? element(`${side}-colour`).value : "found"
  const groups = on.texts.map((_, i) => (by === "gold" ? on.gold[i] : shade(on, seen, seen.found[i])))
  const noise = on.texts.map((_, i) => by === "found" && seen.found[i] === NOISE)
  const names = new Map(unique(seen.found).map(cluster => [cluster, clusterName(on, seen, cluster)]))
  const tips = on.texts.map((text, i) => tip([className(on, on.gold[i]), names.get(seen.found[i])].filter(Boolean).join(" · "), text))
  const symbol = groups.map((group, i) => (noise[i] ? CROSS : markOf(group)))
  const line = { color: GREY, width: symbol.map(name => (name === CROSS ? 1 : 0)) }
  const marks = points(seen.x, seen.y, tips, { size: 7, color: groups.map(colourOf), symbol, line, opacity: ALPHA }, { unselected: { marker: { opacity: ALPHA } } })
  const range = frame(seen.x, seen.y, false, 0.02)
  draw(`${side}-map`, 440, range, [marks], {
    annotations: nameplates(on, seen, by),
    xaxis: { visible: false }, yaxis: { visible: false }, margin: { l: 0, r: 0, t: 30, b: 0 }, hoverdistance: NEAR, clickanywhere: true,
  }, ["select2d", "lasso2d"], { scrollZoom: true })
  listenTo(element(`${side}-map`))
  markSelected(side)
  const clusters = seen.columns ? seen.columns.filter(cluster => cluster !== NOISE).length : null
  const counted = clusters === null ? "" : ` (${clusters} clusters, ${on.classes.length} gold classes)`
  const found = seen.noise ? `, ${seen.noise.toLocaleString("en")} noise` : ""
  const far = range.outside ? `; ${texts(range.outside)} far outside, zoom out to see` : ""
  element(`${side}-title`).textContent = `${seen.model}: ${by === "gold" ? "gold classes" : `found by ${seen.method}${found}`}${counted}; ${seen.x.length ? `placed by ${seen.how}${far}` : `no map: ${seen.how}`}`
}

// names of the largest groups, at the median of their texts
function nameplates(on, seen, by) {
  const own = by === "gold" ? on.gold : seen.found
  const nameOf = group => (by === "gold" ? on.classes[group] : on.classes[most(seen, group)] ?? `cluster ${group}`)
  const middle = values => values.sort((a, b) => a - b)[Math.floor(values.length / 2)]
  const members = unique(own).filter(group => group !== NOISE).map(group => [group, own.flatMap((other, i) => (other === group ? [i] : []))])
  return members.sort((a, b) => b[1].length - a[1].length).slice(0, NAMED).map(([group, rows]) => ({
    x: middle(rows.map(i => seen.x[i])), y: middle(rows.map(i => seen.y[i])), showarrow: false,
    text: `<b>${plain(nameOf(group).slice(0, LONGEST))}</b>`, font: { size: 11 }, bgcolor: "rgba(255, 255, 255, 0.6)",
  }))
}

function legend(names, groups) {
  return names.slice(0, 45).map((name, i) => {
    const item = made("li")
    item.append(mark(groups[i]), name)
    return item
  })
}

const SHAPES = {
  circle: "M6 1a5 5 0 1 0 .01 0z", square: "M1 1h10v10h-10z", "triangle-up": "M6 1l5 10h-10z",
  diamond: "M6 0l5 6-5 6-5-6z", "triangle-down": "M1 1h10l-5 10z",
}

function mark(group) {
  const space = "http://www.w3.org/2000/svg"
  const svg = document.createElementNS(space, "svg")
  const path = document.createElementNS(space, "path")
  svg.setAttribute("viewBox", "0 0 12 12")
  svg.setAttribute("width", "12")
  svg.setAttribute("height", "12")
  path.setAttribute("d", SHAPES[markOf(group)])
  path.setAttribute("fill", colourOf(group))
  svg.append(path)
  return svg
}

function chooseView() {
  const on = view()
  if (!on) return
  const models = on.models.map((seen, i) => [String(i), `${seen.model}, ${seen.method}`])
  fill(element("left-model"), models, "0")
  fill(element("right-model"), models, models.length > 1 ? "1" : "0")
  fill(element("confusion-model"), models, "0")
  fill(element("class"), [["", ALL], ...on.classes.map((name, i) => [String(i), name])])
  const thin = on.texts.length < on.size ? `${on.texts.length.toLocaleString("en")} of its ${on.size.toLocaleString("en")} texts are shown, each class by its share` : `${on.size.toLocaleString("en")} texts`
  element("view-note").textContent = `The largest split of level ${on.level}, ${on.split}: ${thin}.`
  element("legend").replaceChildren(...legend(on.classes, on.classes.map((name, i) => i)))
  select([])
  SIDES.forEach(drawMap)
  drawConfusion()
}

// selects texts in both maps, and lists them
function select(indices) {
  selected = indices
  SIDES.forEach(markSelected)
  list("selected", indices.length ? `${texts(indices.length)} selected` : "", indices)
}

// by a class of the marks: plotly's own way draws both maps anew, which takes most of a second for 3,000 texts
function markSelected(side) {
  const map = element(`${side}-map`)
  const chosen = new Set(selected)
  map.classList.toggle("selecting", chosen.size > 0)
  map.querySelectorAll(".point").forEach((mark, i) => mark.classList.toggle("chosen", chosen.has(i)))
}

function listenTo(map) {
  const take = event => {
    if (event?.points.length || selected.length) select(event?.points.map(point => point.pointIndex) ?? [])
  }
  map.on("plotly_click", take)
  map.on("plotly_deselect", take)
  map.on("plotly_selected", event => {
    if (!event?.range && !event?.lassoPoints) return // not the reader's doing
    take(event)
    Plotly.relayout(map, { selections: [] }) // the box or lasso goes
  })
}

function list(id, title, indices) {
  const on = view()
  const items = indices.slice(0, LISTED).map(i => {
    const item = made("li")
    const name = className(on, on.gold[i])
    if (name) item.append(made("b", `${name}: `))
    item.append(on.texts[i])
    return item
  })
  const more = indices.length > LISTED ? [made("p", `and ${indices.length - LISTED} more`, { class: "note" })] : []
  const all = made("ul")
  all.append(...items)
  element(id).replaceChildren(...(indices.length || title ? [made("h3", title), all, ...more] : []))
}

// -- confusion

const texts = count => `${count.toLocaleString("en")} text${count === 1 ? "" : "s"}`

function drawConfusion() {
  const on = view()
  const seen = seenBy("confusion-model")
  element("worst").replaceChildren()
  element("confusion").replaceChildren()
  list("confused", "", [])
  if (!seen?.rows) {
    element("confusion-note").textContent = on ? "These texts have no gold classes." : ""
    return
  }
  const { rows, columns, counts } = seen
  const sums = counts.map(row => row.reduce((a, b) => a + b, 0))
  const own = (i, j) => seen.match[columns[j]] === rows[i]
  const right = counts.flatMap((row, i) => row.filter((_, j) => own(i, j))).reduce((a, b) => a + b, 0)
  element("confusion-note").textContent = `Level ${on.level}, split ${on.split}, ${seen.method}: ${texts(right)} of ${on.size.toLocaleString("en")} are in the cluster that stands for their class (one for each at most, so that most texts agree: the framed cells). Rows are gold classes; a cell's shade is its share of the row. Choose a cell to read its texts.`
  const cells = counts.flatMap((row, i) => row.map((count, j) => ({ i, j, count })))
  const wrong = cells.filter(({ i, j, count }) => count && !own(i, j)).sort((a, b) => b.count - a.count)
  element("worst").append(...wrong.slice(0, 12).map(({ i, j, count }) => {
    const item = made("li")
    const share = Math.round((100 * count) / sums[i])
    const apart = columns[j] !== NOISE && most(seen, columns[j]) === rows[i] ? "also has" : "in" // split, not mixed
    item.append(made("button", `${on.classes[rows[i]]} ${apart} ${clusterName(on, seen, columns[j])}: ${texts(count)}, ${share} % of the class`, { "data-cell": `${i},${j}` }))
    return item
  }))
  const head = made("tr")
  head.append(made("th"), ...columns.map(cluster => {
    const th = made("th")
    th.append(made("span", clusterName(on, seen, cluster)))
    return th
  }), made("th", "all"))
  const body = counts.map((row, i) => {
    const tr = made("tr")
    tr.append(made("th", on.classes[rows[i]], { title: on.classes[rows[i]] }), ...row.map((count, j) => cell(i, j, count, count / sums[i], own(i, j))), made("td", String(sums[i])))
    return tr
  })
  const thead = made("thead")
  const tbody = made("tbody")
  thead.append(head)
  tbody.append(...body)
  element("confusion").append(thead, tbody)
}

function cell(i, j, count, share, own) {
  const td = made("td", "", own ? { class: "own" } : {})
  if (!count) return td
  td.append(made("button", String(count), { "data-cell": `${i},${j}` }))
  td.style.background = `rgba(0, 114, 178, ${share.toFixed(2)})`
  td.style.color = share > 0.55 ? "white" : "inherit"
  return td
}

function showCell(i, j) {
  const on = view()
  const seen = seenBy("confusion-model")
  const gold = seen.rows[i]
  const cluster = seen.columns[j]
  const indices = on.texts.map((_, k) => k).filter(k => on.gold[k] === gold && seen.found[k] === cluster)
  const count = seen.counts[i][j]
  const some = indices.length < count ? `; ${indices.length} of them are on the map` : ""
  list("confused", `${on.classes[gold]} in ${clusterName(on, seen, cluster)}: ${texts(count)}${some}`, indices)
  select(indices)
}

// -- pairs of models

const pairTable = table(
  "pair-table",
  [
    column("level", row => row.level),
    column("A better on", row => String(row.aWins), row => row.aWins, "dt-right"),
    column("B better on", row => String(row.bWins), row => row.bWins, "dt-right"),
    column("mean A − B", row => shown(row.difference), row => row.difference, "dt-right"),
    column("95 % interval", row => (row.low === null ? "–" : `${shown(row.low)} to ${shown(row.high)}`)),
    column("p", row => (row.p === null ? "–" : row.p < 0.001 ? "< .001" : row.p.toFixed(3)), row => row.p, "dt-right"),
    column("median size where A / B is better", row => row.sizes),
    column("median classes where A / B is better", row => row.classes),
  ],
  [],
  [[0, "asc"]],
  false,
)

const median = values => {
  const sorted = values.filter(value => value !== null).sort((a, b) => a - b)
  return sorted.length ? String(sorted[Math.floor((sorted.length - 1) / 2)]) : "–"
}

// what is kept of a pair, seen from the side that the reader calls A
function pair(a, b) {
  return data.pairs
    .filter(found => (found.a === a && found.b === b) || (found.a === b && found.b === a))
    .map(found => {
      const turned = found.a !== a
      const turn = row => (turned ? { ...row, difference: negative(row.difference), low: negative(row.high), high: negative(row.low) } : row)
      const splits = found.splits.map(turn)
      const wins = [splits.filter(row => row.difference > 0), splits.filter(row => row.difference < 0)]
      const both = key => wins.map(rows => median(rows.map(row => row[key]))).join(" / ")
      return { ...turn(found), splits, aWins: wins[0].length, bWins: wins[1].length, sizes: both("size"), classes: both("classes") }
    })
}

const negative = value => (value === null ? null : -value)

function drawPair() {
  const [a, b, level] = ["a", "b", "pair-level"].map(id => element(id).value)
  const rows = pair(a, b)
  pairTable.clear().rows.add(rows).draw()
  const names = unique(data.pairs.map(found => found.level))
  const splits = rows
    .filter(row => level === ALL || row.level === level)
    .flatMap(row => row.splits.map(split => ({ ...split, level: row.level, colour: COLOURS[names.indexOf(row.level) % COLOURS.length] })))
    .map(row => ({ ...row, low: row.low ?? row.difference, high: row.high ?? row.difference }))
  const sign = value => (value > 0 ? "+" : "") + shown(value)
  const tips = splits.map(row => tip(row.split, `A − B ${sign(row.difference)} (${sign(row.low)} to ${sign(row.high)})`, `${row.size} texts, ${row.classes ?? "?"} classes`))
  const range = frame(splits.flatMap(row => [row.size, row.size]), splits.flatMap(row => [Math.min(row.low, 0), Math.max(row.high, 0)]), true)
  draw("splits-figure", 380, range, [
    points(splits.map(row => row.size), splits.map(row => row.difference), tips, { size: 9, color: splits.map(row => row.colour) }, {
      error_y: { symmetric: false, array: splits.map(row => row.high - row.difference), arrayminus: splits.map(row => row.difference - row.low), color: "grey", thickness: 1 },
    }),
  ], {
    xaxis: { type: "log", title: "texts of the split" }, yaxis: { title: "A minus B, points" },
    shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: 0, y1: 0, line: { dash: "dash", width: 1 }, layer: "below" }],
  })
  element("pair-said").textContent = a === b ? "Choose two models." : rows.map(row => verdict(row, a, b)).join(" ")
}

function verdict(row, a, b) {
  if (row.difference === null) return `Level ${row.level}: ${row.note}.`
  const lead = row.difference >= 0 ? a : b
  if (row.difference === 0) return `Level ${row.level}: both score the same.`
  const words = `${lead} leads by ${Math.abs(row.difference).toFixed(2)} points (95 % interval of A − B: ${shown(row.low)} to ${shown(row.high)})`
  const tested = `p = ${row.p === null ? "?" : row.p < 0.001 ? "< .001" : row.p.toFixed(3)}, ${row.comparisons} comparison${row.comparisons === 1 ? "" : "s"}`
  const sure = row.note ? `undecided: ${row.note}` : row.better ? `significant (${tested})` : `not significantly different (${tested})`
  return `Level ${row.level}: ${words}, ${sure}.`
}

// -- history

function drawHistory() {
  const wanted = element("history-model").value
  const rows = data.history.filter(row => wanted === ALL || row.line === wanted)
  const lines = unique(rows.map(row => `${row.line}\n${row.protocol}`))
  const states = rows.map(row => ({
    ...row,
    time: Date.parse(row.created),
    colour: COLOURS[unique(data.history.map(other => other.line)).indexOf(row.line) % COLOURS.length],
    marker: MARKS[unique(data.history.map(other => other.data)).indexOf(row.data) % MARKS.length],
    model: `${row.model}, protocol ${row.protocol}`,
    key: `${row.line}\n${row.protocol}`,
  }))
  const column = (of, key) => of.map(row => row[key])
  const tips = states.map(row => tip(row.model, `score ${shown(row.score)}`, row.method, `weights ${row.weights}`, `data ${row.data}`, `code ${row.code}`))
  const drawn = lines.map(key => states.filter(row => row.key === key)).map(of => ({
    mode: "lines", x: column(of, "time"), y: column(of, "score"), line: { color: of[0].colour, width: 1.5 }, hoverinfo: "skip",
  }))
  draw("history-figure", 360, frame(column(states, "time"), column(states, "score")), [
    ...drawn, points(column(states, "time"), column(states, "score"), tips, { size: 9, color: column(states, "colour"), symbol: column(states, "marker") }),
  ], { xaxis: { type: "date", title: "scored" }, yaxis: { title: "score x100" } })
}

// -- everything

function listen() {
  for (const id of ["level", "protocol", "model", "every"]) element(id).addEventListener("change", drawBoard)
  element("view").addEventListener("change", chooseView)
  for (const side of SIDES)
    for (const what of ["model", "colour"]) element(`${side}-${what}`).addEventListener("change", () => drawMap(side))
  element("confusion-model").addEventListener("change", drawConfusion)
  element("class").addEventListener("change", event => {
    const wanted = event.target.value
    select(wanted === "" ? [] : view().gold.flatMap((gold, i) => (gold === Number(wanted) ? [i] : [])))
  })
  for (const id of ["worst", "confusion"])
    element(id).addEventListener("click", event => {
      const place = event.target.closest("[data-cell]")?.dataset.cell
      if (place) showCell(...place.split(",").map(Number))
    })
  for (const id of ["a", "b", "pair-level"]) element(id).addEventListener("change", drawPair)
  element("history-model").addEventListener("change", drawHistory)
}

// a section that has nothing to show, and the link to it
function hide(id, kept) {
  element(id).hidden = !kept
  for (const link of document.querySelectorAll(`nav a[href="#${id}"]`)) link.hidden = !kept
}

function start() {
  listen()
  fill(element("view"), data.views.map((on, i) => [String(i), `${on.level}, ${on.split}`]))
  chooseView()
  drawBoard()
  const models = unique(data.pairs.flatMap(found => [found.a, found.b]))
  fill(element("a"), models)
  fill(element("b"), models, models[1])
  fill(element("pair-level"), [ALL, ...unique(data.pairs.map(found => found.level))])
  drawPair()
  fill(element("history-model"), [ALL, ...unique(data.history.map(row => row.line)).sort()])
  drawHistory()
  data.diagrams.forEach((figure, i) => drawFigure(`ranks-${i}`, figure))
  element("heatmaps")?.addEventListener("toggle", () => data.heatmaps.forEach((figure, i) => drawFigure(`heatmap-${i}`, figure)), { once: true }) // what is hidden has no size
  if (data.absent.length) {
    table("absent", [column("model", row => row.model), column("method", row => row.method), column("status", row => row.status), column("reason", row => row.reason)], data.absent, [[2, "asc"]])
    element("absent-section").hidden = false
  }
  hide("maps", data.views.length || element("maps").querySelector(".missing"))
  hide("confusion-section", data.views.some(on => on.classes.length))
  hide("splits-section", data.pairs.length)
  element("history-figure").hidden = !data.history.length
  document.body.dataset.ready = "yes"
}

start()
