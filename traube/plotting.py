"""Figures of Matplotlib (`traube[papers]`): maps of texts, scores, and ranks over tasks."""

from traube.grouping.plot import plot_map
from traube.reports.charts import draw_bars, draw_heatmaps
from traube.reports.cluster_report import MapLayer
from traube.reports.over_tasks import draw_critical_difference

__all__ = ["MapLayer", "draw_bars", "draw_critical_difference", "draw_heatmaps", "plot_map"]
