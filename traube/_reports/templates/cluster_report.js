// The panel beside datamapplot's map: groups, the table of what is selected, downloads, light and dark.
// `tables.js` stands before it. All that people wrote is put into the page as text, never as HTML.

const data = JSON.parse(element("data").textContent)
const OTHERS = ["text-search", "legend", "d3histogram-container"]
const LISTED = 10000 // rows of the table
const TIP = 300 // characters of a tooltip, and of a text in the table until it is chosen
const FORMULA = /^[\t\r\n]|^[\p{C}\p{M}\p{Z}]*[=+\-@⁺⁼₊₌⩴⩵⩶﬩﹢﹣﹦﹫＋－＝＠]/u // a spreadsheet would compute it, as in _core/escaping.py
const finest = data.layers.length - 1

const SIZES = matchMedia("(max-width: 768px)").matches ? [9, 13] : [12, 26] // of labels, the smallest and the largest
const APART = 3 // pixels between labels
const SHIFTS = [0, -1, 1, -2, 2] // half heights by which a label makes way for others

let listed = data.chosen // the layer of the list, the tips and the labels
let labels = [] // of all layers
let whole = 0 // the zoom at which all texts are seen
let seen = null // the view that the labels were placed in
let map = null
let listing = null // the table, once it has been opened
let dark = false

const oneLine = text => text.replace(/\s+/g, " ").trim()
const layerOf = i => map.metaData[`layer${i}`]
const names = data.layers.map(groups => new Map(groups.map(group => [group.group, group.name])))
const nameOf = (layer, row) => names[layer].get(layerOf(layer)[row]) ?? data.alone
const rowsOf = (layer, group) => layerOf(layer).flatMap((own, row) => (own === group ? [row] : []))
const cut = row => oneLine(map.metaData.hover_text[row]).slice(0, TIP)
const everyRow = () => [...map.metaData.hover_text.keys()]
const rgb = ([r, g, b]) => `rgb(${r}, ${g}, ${b})`

function selectedRows() {
  return Object.keys(map.dataSelectionManager.selectedIndicesByItem).length ? [...map.getSelectedIndices()].sort((a, b) => a - b) : everyRow()
}

// -- groups

// each group of a layer lies in the group of the coarser layer that has most of its texts
function children(layer, parent) {
  const [above, own] = [layerOf(layer - 1), layerOf(layer)]
  const counts = new Map()
  own.forEach((group, row) => {
    const of = counts.get(group) ?? counts.set(group, new Map()).get(group)
    of.set(above[row], (of.get(above[row]) ?? 0) + 1)
  })
  const main = group => [...counts.get(group)].sort((a, b) => b[1] - a[1])[0][0]
  return data.layers[layer].filter(({ group }) => main(group) === parent)
}

// the mean color of a group's points
function colorOf(layer, group) {
  const rows = rowsOf(layer, group)
  return ["r", "g", "b"].map(one => Math.round(rows.reduce((sum, row) => sum + map.pointData[one][row], 0) / rows.length))
}

function drawLayer(layer) {
  listed = layer
  drawLabels()
  element("groups").replaceChildren(...(finest ? [drawLayers()] : []), drawGroups(layer, data.layers[layer]))
}

function drawLayers() {
  const choice = made("p", "Groups: ", { class: "layers", role: "group", "aria-label": "number of groups" })
  choice.append(...data.layers.map((groups, layer) => {
    const button = made("button", groups.length, { "aria-pressed": layer === listed })
    button.addEventListener("click", () => {
      release()
      clear(map.lassoSelectionItemId)
      drawLayer(layer)
      element("groups").querySelectorAll(".layers button")[layer].focus()
    })
    return button
  }))
  return choice
}

function drawGroups(layer, groups) {
  const list = made("ul")
  list.append(...groups.map(group => {
    const item = made("li")
    const head = made("div", "", { class: "head" })
    const open = made("button", "", { class: "open", "aria-expanded": "false", "aria-label": `more about ${group.name}` })
    const button = made("button", "", { class: "group", "aria-pressed": "false", "data-layer": layer, "data-group": group.group })
    const dot = made("i")
    dot.style.background = rgb(colorOf(layer, group.group))
    button.append(dot, made("span", group.name), made("small", group.size.toLocaleString("en")))
    head.append(open, button)
    item.append(head)
    open.addEventListener("click", () => unfold(item, open, layer, group))
    button.addEventListener("click", () => choose(button, layer, group))
    return item
  }))
  return list
}

function unfold(item, open, layer, group) {
  const isOpen = open.getAttribute("aria-expanded") === "true"
  open.setAttribute("aria-expanded", String(!isOpen))
  if (isOpen) return item.querySelectorAll(":scope > .about, :scope > ul").forEach(node => node.remove())
  const about = made("div", "", { class: "about" })
  if (group.words.length) about.append(made("p", group.words.join(", ")))
  if (group.stability !== null) about.append(made("p", `stability ${group.stability.toFixed(2)} of 1`))
  about.append(...group.typical.map(row => made("blockquote", cut(row))))
  item.append(about)
  if (layer < finest) item.append(drawGroups(layer + 1, children(layer + 1, group.group)))
}

function release() {
  for (const button of document.querySelectorAll("#groups .group")) button.setAttribute("aria-pressed", "false")
}

// a group is selected as by the lasso: the other texts stay, faintly
function choose(button, layer, group) {
  const isChosen = button.getAttribute("aria-pressed") === "true"
  release()
  if (isChosen) return clear(map.lassoSelectionItemId)
  button.setAttribute("aria-pressed", "true")
  const rows = rowsOf(layer, group.group)
  map.addSelection(rows, map.lassoSelectionItemId)
  show(rows)
  refresh()
}

// -- what is shown

function show(rows, transitionDuration = 600) {
  const { x, y } = map.pointData
  const ends = values => {
    const sorted = rows.map(row => values[row]).sort((a, b) => a - b)
    const cut = Math.floor(0.02 * sorted.length) // a stray would hide the others
    return [sorted[cut], sorted[sorted.length - 1 - cut]]
  }
  const [[left, right], [low, high]] = [ends(x), ends(y)]
  const { clientWidth: width, clientHeight: height } = map.container
  const below = document.querySelector(".bottom-left").clientHeight // axes and colors
  const fit = 0.8 * Math.min(width / Math.max(right - left, 1), (height - below) / Math.max(high - low, 1)) // pixels of a degree
  const zoom = Math.min(Math.log2((360 * fit) / 512), 9)
  const scale = (512 * 2 ** zoom) / 360
  if (rows.length === map.pointData.x.length) whole = zoom
  const view = { longitude: (left + right) / 2, latitude: (low + high) / 2 - below / 2 / scale, zoom, transitionDuration }
  map.deckgl.setProps({ initialViewState: view })
  map.notifyViewStateChange(view)
}

function clear(...kinds) {
  kinds.forEach(kind => map.dataSelectionManager.removeSelectedIndicesOfItem(kind))
  map.highlightPoints()
  refresh()
}

function reset() {
  element("text-search").value = ""
  release()
  clear(...OTHERS, map.lassoSelectionItemId)
  show(everyRow())
}

const refresh = () => {
  const rows = selectedRows()
  const all = map.metaData.hover_text.length
  element("count").textContent = rows.length < all ? `${rows.length.toLocaleString("en")} of ${all.toLocaleString("en")}` : all.toLocaleString("en")
  if (element("texts").hidden) return
  listing ??= makeTable()
  listing.clear().rows.add(rows.slice(0, LISTED).map(row => ({ row }))).draw()
  const more = rows.length > LISTED ? `The first ${LISTED.toLocaleString("en")} of ${rows.length.toLocaleString("en")} texts. ` : ""
  element("listed").textContent = more + (data.cut ? `Long texts are cut after ${data.cut} characters. ` : "") + "Choose a text to read more of it and to find it on the map."
}

function makeTable() {
  const value = (i, row) => String(map.metaData[`column${i}`][row] ?? "")
  const rows = table(
    "table",
    [
      column("text", ({ row }) => cut(row), ({ row }) => map.metaData.hover_text[row], "text"),
      column("group", ({ row }) => nameOf(data.chosen, row)),
      ...data.columns.map((name, i) => column(escaped(name), ({ row }) => value(i, row), ({ row }) => map.metaData[`column${i}`][row])),
    ],
    [],
    [],
  )
  element("table").addEventListener("click", event => {
    const cell = event.target.closest("td.text")
    if (!cell) return
    const { row } = rows.row(cell.parentElement).data()
    cell.textContent = map.metaData.hover_text[row]
    show([row])
  })
  return rows
}

function openTab(name) {
  for (const one of ["groups", "texts"]) {
    element(one).hidden = one !== name
    element(`${one}-tab`).setAttribute("aria-selected", String(one === name))
  }
  refresh()
}

// -- light and dark

function replace(name, changes) {
  const layer = map[name].clone(changes)
  map.layers = map.layers.map(one => (one === map[name] ? layer : one))
  map[name] = layer
}

// -- labels

// key words in another order are the same name to a reader
const sortWords = name => name.split(/[\s,]+/).sort().join(" ")
// datamapplot counts layers from the finest one, and leaves out those without groups
const named = [...data.layers.keys()].filter(layer => data.layers[layer].length).reverse()
const pen = document.createElement("canvas").getContext("2d")

// The labels of the listed layer, and with each doubling of the map those of the next finer one, the largest first
function wantedLabels(zoom) {
  const deepest = listed + Math.max(0, Math.floor(zoom - whole))
  const layer = one => named[one.layerIdx ?? 0]
  const found = labels.filter(one => layer(one) >= listed && layer(one) <= deepest)
  const once = new Map(found.map(one => [sortWords(one.label), one])) // the coarsest group of a name is the last
  return [...once.values()].sort((one, other) => layer(one) - layer(other) || other.size - one.size)
}

// Each label where no other is, somewhat above or below its place if need be; those that have no room are left out
function placeLabels(view) {
  const boxes = []
  for (const one of wantedLabels(view.zoom)) {
    const lines = one.label.split("\n")
    const size = Math.min(Math.max(one.size, SIZES[0]), SIZES[1])
    pen.font = `${map.fontWeight} ${size}px ${map.fontFamily}`
    const [x, y] = view.project([one.x, one.y])
    const [w, h] = [Math.max(...lines.map(line => pen.measureText(line).width)) / 2 + APART, 0.48 * size * lines.length + APART]
    if (x < 0 || y < 0 || x > view.width || y > view.height) continue
    const free = dy => boxes.every(box => Math.abs(box.x - x) >= box.w + w || Math.abs(box.y - y - dy) >= box.h + h)
    const dy = SHIFTS.map(halves => halves * h).find(free)
    if (dy !== undefined) boxes.push({ x, y: y + dy, w, h, one: { ...one, size, lines, shift: [0, dy] } })
  }
  return boxes
}

function drawLabels() {
  seen = map.deckgl.getViewports()[0]
  if (!seen) return
  replace("labelLayer", { data: placeLabels(seen).map(({ one }) => one), getPixelOffset: one => one.shift })
  map.deckgl.setProps({ layers: map.layers })
}

const follow = () => {
  const view = map.deckgl.getViewports()[0]
  if (!seen || !view.equals(seen)) drawLabels()
}

function setDark(on) {
  dark = on
  document.documentElement.dataset.theme = on ? "dark" : "light"
  document.body.classList.toggle("darkmode", on)
  const light = value => Math.round(value + 0.5 * (255 - value))
  replace("labelLayer", {
    getColor: one => (on ? [one.r, one.g, one.b].map(light) : [one.r, one.g, one.b]),
    outlineColor: on ? [20, 19, 26, 230] : [238, 238, 238, 221],
    getBackgroundColor: on ? [20, 19, 26, 90] : [255, 255, 255, 64],
    updateTriggers: { getColor: on, getBackgroundColor: on },
  })
  replace("pointLayer", { getLineColor: on ? [20, 19, 26, 128] : [250, 250, 250, 128], updateTriggers: { ...map.pointLayer.props.updateTriggers, getLineColor: on } })
  map.deckgl.setProps({ layers: map.layers })
}

// -- downloads

function save(kind, content, type) {
  const link = made("a", "", { download: `${document.title.replace(/[^\p{L}\p{N}]+/gu, "_").slice(0, 60)}.${kind}` })
  link.href = typeof content === "string" && content.startsWith("data:") ? content : URL.createObjectURL(new Blob([content], { type }))
  link.click()
}

function csv() {
  const quoted = value => {
    const text = String(value ?? "")
    const safe = typeof value === "string" && FORMULA.test(text) ? `'${text}` : text
    return /[",\n\r]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe
  }
  const groups = data.layers.map((_, i) => (i === data.chosen ? "group" : `layer_${i}`))
  const line = row => [map.metaData.hover_text[row], ...data.layers.map((_, i) => nameOf(i, row)), ...data.columns.map((_, i) => map.metaData[`column${i}`][row])]
  return [["text", ...groups, ...data.columns], ...selectedRows().map(line)].map(cells => cells.map(quoted).join(",")).join("\n") + "\n"
}

function png() {
  const drawn = map.container.querySelector("canvas")
  const picture = Object.assign(document.createElement("canvas"), { width: drawn.width, height: drawn.height })
  const paint = picture.getContext("2d")
  paint.fillStyle = getComputedStyle(document.body).backgroundColor
  paint.fillRect(0, 0, picture.width, picture.height)
  map.deckgl.redraw("picture") // a canvas holds its picture only until it is shown
  paint.drawImage(drawn, 0, 0)
  return picture.toDataURL("image/png")
}

function svg() {
  const view = map.deckgl.getViewports()[0]
  const { width, height } = view
  const node = (tag, attributes, text = "") => {
    const one = document.createElementNS("http://www.w3.org/2000/svg", tag)
    for (const [name, value] of Object.entries(attributes)) one.setAttribute(name, value)
    one.textContent = text
    return one
  }
  const root = node("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "sans-serif" })
  root.append(node("rect", { width, height, fill: getComputedStyle(document.body).backgroundColor }))
  const { x, y, r, g, b } = map.pointData
  for (const row of selectedRows()) {
    const [cx, cy] = view.project([x[row], y[row]])
    if (cx < 0 || cy < 0 || cx > width || cy > height) continue
    root.append(node("circle", { cx: cx.toFixed(1), cy: cy.toFixed(1), r: 2.5, fill: rgb([r[row], g[row], b[row]]), "fill-opacity": 0.7 }))
  }
  for (const { x: cx, y: cy, one } of placeLabels(view)) {
    const text = node("text", { "text-anchor": "middle", "font-size": one.size, "font-weight": 600, fill: rgb([one.r, one.g, one.b]), stroke: dark ? "#14131a" : "#fff", "stroke-width": 4, "paint-order": "stroke" })
    text.append(...one.lines.map((line, i) => node("tspan", { x: cx.toFixed(1), y: (cy + (i + 0.8 - one.lines.length / 2) * one.size).toFixed(1) }, line)))
    root.append(text)
  }
  return new XMLSerializer().serializeToString(root)
}

const KINDS_OF_FILES = { csv: [csv, "text/csv"], png: [png, "image/png"], svg: [svg, "image/svg+xml"] }

// -- everything

function listen() {
  element("groups-tab").addEventListener("click", () => openTab("groups"))
  element("texts-tab").addEventListener("click", () => openTab("texts"))
  element("theme").addEventListener("click", () => setDark(!dark))
  element("reset").addEventListener("click", reset)
  element("fold").addEventListener("click", () => {
    const folded = element("panel").classList.toggle("folded")
    document.body.classList.toggle("folded", folded)
    element("fold").setAttribute("aria-expanded", String(!folded))
  })
  for (const button of document.querySelectorAll("[data-save]"))
    button.addEventListener("click", () => {
      const [content, type] = KINDS_OF_FILES[button.dataset.save]
      save(button.dataset.save, content(), type)
    })
  document.addEventListener("keydown", event => {
    if (event.key === "Escape") return reset()
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return
    if (event.key === "/") {
      event.preventDefault()
      element("text-search").focus()
    }
    if (event.key === "g" || event.key === "t") openTab({ g: "groups", t: "texts" }[event.key])
  })
}

// datamapplot's event of this may come before the last of its data is there
function startOnceLoaded() {
  map = window.datamap
  if (map?.pointLayer && map.labelLayer && map.metaData) start()
  else setTimeout(startOnceLoaded, 50)
}

function start() {
  const search = element("text-search")
  search.placeholder = "search the texts"
  search.setAttribute("aria-label", "search the texts")
  labels = map.labelData
  // deck.gl would leave out labels for the sake of those that are left out themselves
  replace("labelLayer", { data: [], extensions: [], collisionEnabled: false, sizeMinPixels: SIZES[0], sizeMaxPixels: SIZES[1] })
  map.deckgl.setProps({
    onAfterRender: follow,
    getTooltip: ({ index, picked }) => (picked ? { text: `${nameOf(listed, index)}\n\n${cut(index)}` } : null),
  })
  drawLayer(data.chosen)
  for (const kind of OTHERS) map.addSelectionHandler(refresh, kind)
  map.addSelectionHandler(() => {
    release()
    refresh()
  }) // the lasso's
  listen()
  const scheme = matchMedia("(prefers-color-scheme: dark)")
  setDark(scheme.matches)
  scheme.addEventListener("change", event => setDark(event.matches))
  show(everyRow(), 0)
  refresh()
  document.body.dataset.ready = "yes"
}

startOnceLoaded()
