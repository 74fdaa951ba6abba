// What all figures share: their looks, light or dark, and that one can keep them as SVG.

const scheme = matchMedia("(prefers-color-scheme: dark)")
scheme.addEventListener("change", () => location.reload()) // figures do not change their colors
const css = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()

// a color for white paper, as it stands out on the page's
function toned(color) {
  if (!scheme.matches || !/^#[0-9a-f]{6}$/i.test(color)) return color
  return `#${color.slice(1).match(/../g).map(part => Math.round(0.6 * parseInt(part, 16) + 0.4 * 255).toString(16).padStart(2, "0")).join("")}`
}

const AXIS = { gridcolor: css("line"), linecolor: css("quiet"), ticks: "outside", exponentformat: "none", separatethousands: true, zeroline: false }
const LOOKS = {
  margin: { l: 55, r: 10, t: 30, b: 45 }, font: { size: 12, family: "system-ui, sans-serif", color: css("ink") }, hovermode: "closest",
  paper_bgcolor: "transparent", plot_bgcolor: "transparent", modebar: { bgcolor: "transparent", color: css("quiet"), activecolor: css("ink") },
  hoverlabel: { bgcolor: css("paper"), bordercolor: css("quiet"), align: "left", font: { size: 13, color: css("ink") } },
}
const CONFIG = {
  responsive: true, displaylogo: false, doubleClick: "reset", toImageButtonOptions: { format: "svg" },
  modeBarButtonsToRemove: ["sendChartToCloud"], plotlyServerURL: "", // nothing of a page goes to a server
}
const titled = text => ({ text: text ?? "", font: { size: 12 }, standoff: 8 })

// draws a figure that comes with the page
function drawFigure(id, figure) {
  const { traces, layout } = JSON.parse(JSON.stringify(figure), (key, value) => (/^(fill)?color$/.test(key) ? toned(value) : value))
  const axis = own => ({ ...AXIS, automargin: true, ...own, title: titled(own?.title?.text) })
  return Plotly.newPlot(id, traces, { ...LOOKS, ...layout, xaxis: axis(layout.xaxis), yaxis: axis(layout.yaxis) }, CONFIG)
}
