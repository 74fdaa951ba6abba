// What a reader's choices do. `tables.js` and `figures.js` stand before it. All that people wrote is put into the page
// as text (`textContent`, or DataTables' escaping), never as HTML.

const data = JSON.parse(document.getElementById("data").textContent)
const NOISE = -1
const COLORS = data.colors // with the marks, 45 groups that color-blind eyes tell apart
const MARKS = ["circle", "square", "triangle-up", "diamond", "triangle-down"]
const CROSS = "x-thin"
const ORANGE = toned("#d55e00") // stands out for color-blind eyes too
const ALL = "all"
const LISTED = 50 // texts of a list
// two digits that say something, be it milliseconds or minutes
const seconds = value => (value === null ? "–" : value.toPrecision(2).replace(/e.*/, "") === String(value) ? String(value) : String(Number(value.toPrecision(2))))

// -- colors and marks, of models and of groups

const placeOf = model => data.models.indexOf(model)
const colorOf = group => (group === NOISE || group === undefined ? css("quiet") : toned(COLORS[group % COLORS.length]))
const markOf = group => (group === NOISE || group === undefined ? CROSS : MARKS[Math.floor(group / COLORS.length) % MARKS.length])
const SHAPES = {
  circle: "M6 1a5 5 0 1 0 .01 0z", square: "M1 1h10v10h-10z", "triangle-up": "M6 1l5 10h-10z",
  diamond: "M6 0l5 6-5 6-5-6z", "triangle-down": "M1 1h10l-5 10z",
}

// -- leaderboard, and score against cost

const first = row => parseInt(row.rank) || 1e6
const board = table(
  "board",
  [
    column("rank", row => row.rank, first),
    { ...column("model", row => row.name), render: (_, type, row) => (type === "display" ? `${mark(placeOf(row.model)).outerHTML} ${escaped(row.name)}` : row.name) },
    column("method", row => row.method),
    numeric("score", "score"),
    column("95 % CI", row => row.interval, row => row.score, "dt-nowrap"),
    numeric("sd", "sd"),
    column("seeds", row => String(row.seeds), row => row.seeds),
    column("encoding, s", row => seconds(row.encoding) + (row.earlier ? " (earlier)" : ""), row => row.encoding, "dt-right"),
    column("clustering, s", row => seconds(row.clustering), row => row.clustering, "dt-right"),
    ...(data.board.some(row => row.money) ? [column("paid", row => row.paid || "–", row => row.money, "dt-right")] : []),
    column("memory, MB", row => shown(row.memory, 0), row => row.memory, "dt-right"),
  ],
  data.board,
  [[3, "desc"]],
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
  drawAnswer()
  drawCost()
  drawRanks()
}

const ofChosen = (found, level = element("level").value) => found.find(one => one.level === level && one.protocol === element("protocol").value)

// the answer to what the tables show, and the one over all levels
function drawAnswer() {
  const [answer, overall] = [ofChosen(data.answers), levels.length > 1 ? ofChosen(data.answers, "") : null]
  element("answer").hidden = !answer
  if (answer) element("answer").replaceChildren(made("b", `Level ${answer.level}, protocol ${answer.protocol}. `), answer.text)
  element("over-levels").textContent = overall ? `Over all ${levels.length} levels, as traube recommend answers: ${overall.text}` : ""
}

function drawRanks() {
  if (!element("ranks")) return
  const drawn = ofChosen(data.diagrams)
  const of = `Level ${element("level").value}, protocol ${element("protocol").value}`
  element("ranks-note").textContent = drawn ? `${of}: the ranks that the data allow each model, in the order of the leaderboard. Models whose ranks overlap are tied.` : `${of}: no model has a rank.`
  element("ranks-figure").hidden = !drawn
  if (drawn) drawFigure("ranks-figure", drawn)
}

// where nothing was measured a point stands at what is known of it, as a ring
function drawCost() {
  const rows = chosenRows().filter(row => row.score !== null)
  const most = Math.max(...rows.map(row => row.seconds ?? 0), 1e-4)
  const groups = rows.map(row => placeOf(row.model))
  const xs = rows.map(row => Math.max(row.seconds ?? row.clustering ?? most, 1e-4))
  const ys = rows.map(row => row.score)
  const front = rows.flatMap((row, i) => (row.front ? [i] : [])).sort((i, j) => xs[i] - xs[j])
  const cost = (row, x) => (row.seconds !== null ? `${shown(x, 3)} seconds` : row.clustering !== null ? `${shown(x, 3)} seconds of clustering` : "cost not measured")
  const tips = rows.map((row, i) => tip(`${row.name} with ${row.method}`, `score ${shown(row.score)}`, cost(row, xs[i]), row.earlier ? "encoded earlier" : ""))
  const isRing = rows.map(row => row.earlier || row.seconds === null)
  element("cost-figure").hidden = rows.length < 2
  element("cost-legend").hidden = rows.length < 2
  if (rows.length > 1) {
    const colors = groups.map(colorOf)
    draw("cost-figure", 380, frame(xs, ys, true), [
      { mode: "lines", x: front.map(i => xs[i]), y: front.map(i => ys[i]), line: { shape: "hv", color: ORANGE, width: 2 }, hoverinfo: "skip" },
      points(xs, ys, tips, { size: 11, color: colors, symbol: groups.map((group, i) => markOf(group) + (isRing[i] ? "-open" : "")), line: { width: isRing.map(Number).map(ring => 2 * ring), color: colors }, opacity: rows.map(row => (row.front || row.best ? 1 : 0.4)) }),
    ], { xaxis: { type: "log", title: "seconds for 1,000 texts, encoding and clustering" }, yaxis: { title: "score x100" } })
    const models = unique(rows.map(row => row.model))
    element("cost-legend").replaceChildren(...legend(models, models.map(placeOf)))
  }
  const words = rows.length === 1 ? tips[0].replace(/<br>/g, ", ").replace(/<[^>]*>/g, "") : ""
  const isMeasured = rows.some(row => row.seconds !== null)
  element("bargain").textContent = isMeasured ? ofChosen(data.answers)?.bargain || words : "The cost of these was not measured."
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

// plotly's own ticks of a short logarithmic axis are bare digits
function logTicks([low, high]) {
  const exponents = Array.from({ length: Math.ceil(high) - Math.floor(low) + 1 }, (_, i) => Math.floor(low) + i)
  const values = exponents.flatMap(exponent => [1, 2, 5].map(digit => Number(`${digit}e${exponent}`))).filter(value => Math.log10(value) >= low && Math.log10(value) <= high)
  return values.length > 1 ? { tickmode: "array", tickvals: values, ticktext: values.map(value => value.toLocaleString("en", { maximumSignificantDigits: 3 })) } : {}
}

const points = (x, y, tips, marker, more = {}) => ({ mode: "markers", x, y, hovertext: tips, hoverinfo: "text", marker: { line: { width: 0 }, ...marker }, ...more })

// draws a figure anew; `range` from `frame`
function draw(id, height, range, traces, { xaxis = {}, yaxis = {}, ...layout }, buttons = [], config = {}) {
  const axis = (own, range) => ({ ...AXIS, ...own, ...(own.type === "log" ? logTicks(range) : {}), range, title: titled(own.title) })
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
const HEIGHT = 440 // pixels
const NAMED = 60 // groups whose names may stand on a map
const LINE = 20 // characters of a line of these
const [LETTER, ROW] = [7, 15] // pixels of these
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

// a group's number among the colors: a cluster takes that of the class it stands for
const shade = (on, seen, cluster) => {
  if (cluster === NOISE) return NOISE
  return seen.match?.[cluster] ?? on.classes.length + Number(cluster)
}

let selected = [] // positions of texts

function drawMap(side) {
  const on = view()
  const seen = seenBy(`${side}-model`)
  if (!seen) return
  const by = on.gold.length ? element(`${side}-color`).value : "found"
  const groups = on.texts.map((_, i) => (by === "gold" ? on.gold[i] : shade(on, seen, seen.found[i])))
  const noise = on.texts.map((_, i) => by === "found" && seen.found[i] === NOISE)
  const names = new Map(unique(seen.found).map(cluster => [cluster, clusterName(on, seen, cluster)]))
  const tips = on.texts.map((text, i) => tip([className(on, on.gold[i]), names.get(seen.found[i])].filter(Boolean).join(" · "), text))
  const symbol = groups.map((group, i) => (noise[i] ? CROSS : markOf(group)))
  const line = { color: css("quiet"), width: symbol.map(name => (name === CROSS ? 1 : 0)) }
  const marks = points(seen.x, seen.y, tips, { size: 7, color: groups.map(colorOf), symbol, line, opacity: ALPHA }, { unselected: { marker: { opacity: ALPHA } } })
  const range = frame(seen.x, seen.y, false, 0.02)
  const map = element(`${side}-map`)
  draw(map.id, HEIGHT, range, [marks], {
    annotations: nameplates(map, on, seen, by, range),
    xaxis: { visible: false }, yaxis: { visible: false }, margin: { l: 0, r: 0, t: 30, b: 0 }, hoverdistance: NEAR, clickanywhere: true,
  }, ["select2d", "lasso2d"], { scrollZoom: true })
  listenTo(map)
  map.on("plotly_relayout", event => { // there is room for other names
    const { xaxis, yaxis } = map.layout
    if (!("annotations" in event)) Plotly.relayout(map, { annotations: nameplates(map, on, seen, by, { x: xaxis.range, y: yaxis.range }) })
  })
  markSelected(side)
  const clusters = seen.columns ? seen.columns.filter(cluster => cluster !== NOISE).length : null
  const counted = clusters === null ? "" : ` (${clusters} clusters, ${on.classes.length} gold classes)`
  const found = seen.noise ? `, ${seen.noise.toLocaleString("en")} noise` : ""
  const far = range.outside ? `; ${texts(range.outside)} far outside, zoom out to see` : ""
  element(`${side}-title`).replaceChildren(mark(placeOf(seen.model)), ` ${seen.model}: ${by === "gold" ? "gold classes" : `found by ${seen.method}${found}`}${counted}; ${seen.x.length ? `placed by ${seen.how}${far}` : `no map: ${seen.how}`}`)
}

// names of the largest groups, at the median of their texts; of those that would lie on each other the largest
function nameplates(map, on, seen, by, range) {
  const own = by === "gold" ? on.gold : seen.found
  const nameOf = group => (by === "gold" ? on.classes[group] : on.classes[most(seen, group)] ?? `cluster ${group}`)
  const middle = values => values.sort((a, b) => a - b)[Math.floor(values.length / 2)]
  const members = new Map()
  own.forEach((group, i) => group !== NOISE && (members.get(group) ?? members.set(group, []).get(group)).push(i))
  const pixel = (value, [low, high], size) => (size * (value - low)) / (high - low)
  const taken = []
  return [...members].sort((a, b) => b[1].length - a[1].length).slice(0, NAMED).flatMap(([group, rows]) => {
    const [x, y] = [middle(rows.map(i => seen.x[i])), middle(rows.map(i => seen.y[i]))]
    const lines = nameOf(group).match(new RegExp(`.{1,${LINE}}(?:\\s|$)|.{1,${LINE}}`, "gsu")) ?? [""]
    const box = { x: pixel(x, range.x, map.clientWidth), y: pixel(y, range.y, HEIGHT), width: (LETTER * Math.max(...lines.map(line => line.length))) / 2, height: (ROW * lines.length) / 2 }
    if (taken.some(other => Math.abs(other.x - box.x) < other.width + box.width && Math.abs(other.y - box.y) < other.height + box.height)) return []
    taken.push(box)
    return { x, y, showarrow: false, text: `<b>${lines.map(plain).join("<br>")}</b>`, font: { size: 12 }, bgcolor: css("veil") }
  })
}

function legend(names, groups) {
  return names.slice(0, 45).map((name, i) => {
    const item = made("li")
    item.append(mark(groups[i]), name)
    return item
  })
}

function mark(group) {
  const space = "http://www.w3.org/2000/svg"
  const svg = document.createElementNS(space, "svg")
  const path = document.createElementNS(space, "path")
  svg.setAttribute("viewBox", "0 0 12 12")
  svg.setAttribute("width", "12")
  svg.setAttribute("height", "12")
  path.setAttribute("d", SHAPES[markOf(group)])
  path.setAttribute("fill", colorOf(group))
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
  const alike = new Set()
  const distinct = indices.filter(i => {
    const key = on.texts[i].toLowerCase()
    return !alike.has(key) && alike.add(key)
  })
  const items = distinct.slice(0, LISTED).map(i => {
    const item = made("li")
    const name = className(on, on.gold[i])
    if (name) item.append(made("b", `${name}: `))
    item.append(on.texts[i])
    return item
  })
  const more = indices.length > items.length ? [made("p", `and ${indices.length - items.length} more`, { class: "note" })] : []
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
    const th = made("th", "", { title: clusterName(on, seen, cluster) })
    th.append(made("span", cluster === NOISE ? "noise" : `${cluster}: ${className(on, most(seen, cluster))}`))
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
    column("95 % CI", row => (row.low === null ? "–" : `${shown(row.low)} to ${shown(row.high)}`)),
    column("p", row => (row.p === null ? "–" : row.p < 0.001 ? "< .001" : row.p.toFixed(3).replace(/^0/, "")), row => row.p, "dt-right"),
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
    .flatMap(row => row.splits.map(split => ({ ...split, level: row.level, color: colorOf(names.indexOf(row.level)) })))
    .map(row => ({ ...row, low: row.low ?? row.difference, high: row.high ?? row.difference }))
  element("splits-figure").hidden = splits.length < 2
  const sign = value => (value > 0 ? "+" : "") + shown(value)
  const tips = splits.map(row => tip(row.split, `A − B ${sign(row.difference)} (${sign(row.low)} to ${sign(row.high)})`, `${row.size} texts, ${row.classes ?? "?"} classes`))
  const range = frame(splits.flatMap(row => [row.size, row.size]), splits.flatMap(row => [Math.min(row.low, 0), Math.max(row.high, 0)]), true)
  if (splits.length > 1) draw("splits-figure", 380, range, [
    points(splits.map(row => row.size), splits.map(row => row.difference), tips, { size: 9, color: splits.map(row => row.color) }, {
      error_y: { symmetric: false, array: splits.map(row => row.high - row.difference), arrayminus: splits.map(row => row.difference - row.low), color: "gray", thickness: 1 },
    }),
  ], {
    xaxis: { type: "log", title: "texts of the split" }, yaxis: { title: "A minus B, points" },
    shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: 0, y1: 0, line: { dash: "dash", width: 1 }, layer: "below" }],
  })
  element("pair-said").textContent = a === b ? "Choose two models." : rows.map(row => verdict(row, a, b)).join(" ")
}

function verdict(row, a, b) {
  if (row.difference === null) return `Level ${row.level}: ${row.answer}.`
  const lead = row.difference >= 0 ? a : b
  if (row.difference === 0) return `Level ${row.level}: both score the same.`
  const words = `${lead} leads by ${Math.abs(row.difference).toFixed(2)} points (95 % CI of A − B: ${shown(row.low)} to ${shown(row.high)})`
  return `Level ${row.level}: ${words}; ${row.answer}.`
}

// -- history

function drawHistory() {
  const wanted = element("history-model").value
  const rows = data.history.filter(row => wanted === ALL || row.line === wanted)
  const lines = unique(rows.map(row => `${row.line}\n${row.protocol}`))
  const states = rows.map(row => ({
    ...row,
    time: Date.parse(row.created),
    color: colorOf(placeOf(row.line)),
    marker: MARKS[unique(data.history.map(other => other.data)).indexOf(row.data) % MARKS.length],
    model: `${row.model}, protocol ${row.protocol}`,
    key: `${row.line}\n${row.protocol}`,
  }))
  const column = (of, key) => of.map(row => row[key])
  const tips = states.map(row => tip(row.model, `score ${shown(row.score)}`, row.method, `weights ${row.weights}`, `data ${row.data}`, `code ${row.code}`))
  const drawn = lines.map(key => states.filter(row => row.key === key)).map(of => ({
    mode: "lines", x: column(of, "time"), y: column(of, "score"), line: { color: of[0].color, width: 1.5 }, hoverinfo: "skip",
  }))
  element("history-figure").hidden = !drawn.some(of => of.x.length > 1)
  if (!element("history-figure").hidden) draw("history-figure", 360, frame(column(states, "time"), column(states, "score")), [
    ...drawn, points(column(states, "time"), column(states, "score"), tips, { size: 9, color: column(states, "color"), symbol: column(states, "marker") }),
  ], { xaxis: { type: "date", title: "scored" }, yaxis: { title: "score x100" } })
}

// -- everything

function listen() {
  for (const id of ["level", "protocol", "model", "every"]) element(id).addEventListener("change", drawBoard)
  element("view").addEventListener("change", chooseView)
  for (const side of SIDES)
    for (const what of ["model", "color"]) element(`${side}-${what}`).addEventListener("change", () => drawMap(side))
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
  element("heatmaps")?.addEventListener("toggle", () => data.heatmaps.forEach((figure, i) => drawFigure(`heatmap-${i}`, figure)), { once: true }) // what is hidden has no size
  if (data.absent.length) {
    table("absent", [column("model", row => row.model), column("method", row => row.method), column("status", row => row.status), column("reason", row => row.reason)], data.absent, [[2, "asc"]])
    element("absent-section").hidden = false
  }
  hide("maps", data.views.length || element("maps").querySelector(".missing"))
  hide("confusion-section", data.views.some(on => on.classes.length))
  hide("splits-section", data.pairs.length)
  element("history-drawn").hidden = element("history-figure").hidden // which shows everything now
  document.body.dataset.ready = "yes"
}

start()
