// The panel beside datamapplot's map: groups, the table of what is selected, downloads, light and dark.
// `tables.js` stands before it. All that people wrote is put into the page as text, never as HTML.

const data = JSON.parse(element("data").textContent)
const OTHERS = ["text-search", "legend", "d3histogram-container"]
const LISTED = 10000 // rows of the table
const TIP = 300 // characters of a tooltip, and of a text in the table until it is chosen
const FORMULA = /^[\t\r\n]|^[\p{C}\p{M}\p{Z}]*[=+\-@⁺⁼₊₌⩴⩵⩶﬩﹢﹣﹦﹫＋－＝＠]/u // a spreadsheet would compute it, as in _core/escaping.py
const finest = data.layers.length - 1

let listed = data.chosen // the layer of the list and the tips
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

// key words in another order are the same name to a reader
const sortWords = name => name.split(/[\s,]+/).sort().join(" ")

// A label is there or not: deck.gl would fade those whose middle is at the edge of another
class WholeLabels extends deck.CollisionFilterExtension {
  getShaders() {
    const [collision] = super.getShaders().modules
    const place = "vs:DECKGL_FILTER_GL_POSITION"
    const leftOut = "if (collision.enabled && collision_fade < 0.5) position = vec4(0.0, 0.0, 2.0, 1.0);" // outside the map
    const inject = { ...collision.inject, [place]: collision.inject[place] + leftOut, "vs:DECKGL_FILTER_COLOR": "" }
    return { modules: [{ ...collision, inject, instance: undefined }] } // which holds what was injected before
  }
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
  const taken = []
  for (const label of [...map.labelData].sort((one, other) => (other.collision_priority ?? other.size) - (one.collision_priority ?? one.size))) {
    const lines = label.label.split("\n")
    const size = Math.min(Math.max(label.size, 12), 26)
    const [cx, cy] = view.project([label.x, label.y])
    const [w, h] = [(0.3 * size * Math.max(...lines.map(one => one.length))), (0.55 * size * lines.length)]
    if (cx < 0 || cy < 0 || cx > width || cy > height) continue
    if (taken.some(box => Math.abs(box.cx - cx) < box.w + w && Math.abs(box.cy - cy) < box.h + h)) continue
    taken.push({ cx, cy, w, h })
    const text = node("text", { "text-anchor": "middle", "font-size": size, "font-weight": 600, fill: rgb([label.r, label.g, label.b]), stroke: dark ? "#14131a" : "#fff", "stroke-width": 4, "paint-order": "stroke" })
    text.append(...lines.map((one, i) => node("tspan", { x: cx.toFixed(1), y: (cy + (i + 0.8 - lines.length / 2) * size).toFixed(1) }, one)))
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
  map.deckgl.setProps({
    getTooltip: ({ index, picked }) => (picked ? { text: `${nameOf(listed, index)}\n\n${cut(index)}` } : null),
  })
  drawLayer(data.chosen)
  for (const kind of OTHERS) map.addSelectionHandler(refresh, kind)
  map.addSelectionHandler(() => {
    release()
    refresh()
  }) // the lasso's
  listen()
  map.labelData = [...new Map(map.labelData.map(one => [sortWords(one.label), one])).values()] // the coarsest group of a name is the last
  replace("labelLayer", { data: map.labelData, extensions: [new WholeLabels()] })
  if (matchMedia("(max-width: 768px)").matches) replace("labelLayer", { sizeMinPixels: 9, sizeMaxPixels: 13, collisionTestProps: { sizeScale: 3, sizeMinPixels: 24, sizeMaxPixels: 32 } })
  const scheme = matchMedia("(prefers-color-scheme: dark)")
  setDark(scheme.matches)
  scheme.addEventListener("change", event => setDark(event.matches))
  show(everyRow(), 0)
  refresh()
  document.body.dataset.ready = "yes"
}

startOnceLoaded()
