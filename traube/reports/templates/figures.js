// What all figures share: their looks, and that one can keep them as SVG.

const AXIS = { gridcolor: "#e8e8ee", linecolor: "#555", ticks: "outside", exponentformat: "none", separatethousands: true, zeroline: false }
const LOOKS = {
  margin: { l: 55, r: 10, t: 30, b: 45 }, font: { size: 11, family: "system-ui, sans-serif" }, hovermode: "closest",
  hoverlabel: { bgcolor: "white", bordercolor: "#555", align: "left", font: { size: 13, color: "#1c1c28" } },
}
const CONFIG = {
  responsive: true, displaylogo: false, doubleClick: "reset", toImageButtonOptions: { format: "svg" },
  modeBarButtonsToRemove: ["sendChartToCloud"], plotlyServerURL: "", // nothing of a page goes to a server
}
const titled = text => ({ text: text ?? "", font: { size: 12 }, standoff: 8 })

// draws a figure that comes with the page
function drawFigure(id, { traces, layout }) {
  const axis = own => ({ ...AXIS, automargin: true, ...own, title: titled(own?.title?.text) })
  return Plotly.newPlot(id, traces, { ...LOOKS, ...layout, xaxis: axis(layout.xaxis), yaxis: axis(layout.yaxis) }, CONFIG)
}
