"""Figures of Matplotlib: maps of texts, scores, and ranks over tasks."""

from traube._grouping.plot import plot_map
from traube._reports.charts import draw_bars, draw_heatmaps
from traube._reports.cluster_report import MapLayer
from traube._reports.over_tasks import draw_critical_difference

__all__ = ["MapLayer", "draw_bars", "draw_critical_difference", "draw_heatmaps", "plot_map"]
