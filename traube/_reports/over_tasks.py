"""Ranks of models over several tasks: mean ranks, and the critical-difference diagram (Demšar, 2006)."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from traube._core.disk import replacing
from traube._core.errors import Invalid, TooFew, join_words
from traube.comparison._candidates import WITHOUT_LABELS
from traube.comparison._ranking import Ranking, find_ties, rank_by_splits

FORMATS = (".svg", ".png", ".pdf")
MOST = 30  # models of a figure
ROW, BAR, WIDTH = 0.22, 0.12, 7.0  # inches: of a model, of a bar, and of the figure


@dataclass(frozen=True)
class OverTasks:
    """Models on the tasks that all of them are scored on, the best mean rank first."""

    tasks: tuple[str, ...]
    ranks: pd.Series  # the mean rank of each model
    scores: pd.Series  # the mean score of each model
    ranking: Ranking  # the verdict on every pair, by paired t-tests over tasks
    left_out: tuple[str, ...]  # models that are not scored on all of the tasks

    def table(self) -> pd.DataFrame:
        """Return a row for each model: ranks, mean rank, mean score and number of tasks."""
        low, high = self.ranking.ranks.T
        columns = {"rank_low": low, "rank_high": high, "model": self.ranks.index, "mean_rank": self.ranks.to_numpy()}
        return pd.DataFrame({**columns, "mean": self.scores.to_numpy(), "tasks": len(self.tasks)})

    @property
    def note(self) -> str:
        """Return a sentence on what the table is made of, and what its tests assume."""
        without = f" Left out, since not scored on all of them: {join_words(self.left_out)}." if self.left_out else ""
        return (
            f"ranks are means over {len(self.tasks)} tasks: {join_words(self.tasks)}. Ties are by paired t-tests over tasks, "
            f"corrected for {self.ranking.comparisons} comparisons, which take tasks as independent: those that share texts "
            f"(as _s2s and _p2p of a data set do) are not.{without}"
        )


def rank_over_tasks(best: pd.DataFrame, models: Collection[str] = ()) -> OverTasks:
    """Rank models over tasks, by each one's best method on each.

    Parameters
    ----------
    best : DataFrame
        Rows of a leaderboard, of one protocol for each task: `task`, `level`, `model`, `metric`, `mean`. Levels of a task
        are averaged; tasks without labels are left aside.
    models : collection of str
        Which models; the tasks are then those that all of them are scored on. By default the models that are scored on
        all tasks.

    Raises
    ------
    TraubeError
        If fewer than two models are scored on the same two tasks or more.
    """
    labeled = best[best["metric"] != WITHOUT_LABELS]
    scores = labeled.pivot_table("mean", "model", "task")  # the mean over levels
    named = scores.loc[[model for model in scores.index if not models or model in models]]
    complete = named.dropna(axis="columns") if models else named.dropna(axis="index")
    n_models, n_tasks = complete.shape
    if n_models < 2 or n_tasks < 2:
        raise TooFew(
            f"--over-tasks: {n_models} of {len(named)} models {'is' if n_models == 1 else 'are'} scored on the same {n_tasks} "
            "tasks; two of each are needed: name tasks by -t or models by -m, or score more by `traube run`"
        )
    ranks = complete.rank(axis="index", ascending=False).mean(axis="columns")
    order = ranks.sort_values(kind="stable").index
    complete, ranks = complete.loc[order], ranks.loc[order]
    ranking = rank_by_splits(list(order), complete.to_numpy())
    left_out = tuple(sorted({*named.index} - {*order}))
    return OverTasks(tuple(complete.columns), ranks, complete.mean(axis="columns"), ranking, left_out)


def write_figure(over_tasks: OverTasks, path: Path) -> None:
    """Write the critical-difference diagram as SVG, PNG or PDF, as the file's name says."""
    if path.suffix.lower() not in FORMATS:
        raise Invalid(f"--figure {path}: unknown format; expected a name that ends in {', '.join(FORMATS)}")
    figure = draw_critical_difference(over_tasks.ranks, over_tasks.ranking.p)
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:].lower(), bbox_inches="tight", dpi=200)


def draw_critical_difference(ranks: pd.Series, p: Any) -> Any:
    """Draw mean ranks on an axis, the best on the left, and a bar over models of which no two differ significantly.

    Parameters
    ----------
    ranks : Series
        Mean ranks by model, ascending.
    p : ndarray of shape (n_models, n_models)
        The p-value of each pair, in the same order.

    Returns
    -------
    matplotlib.figure.Figure
        A critical-difference diagram.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from traube.plotting import draw_critical_difference
    >>> ranks = pd.Series({"minilm": 1.2, "tfidf": 1.8})
    >>> len(draw_critical_difference(ranks, np.array([[1.0, 0.3], [0.3, 1.0]])).axes)
    1
    """
    from matplotlib.figure import Figure

    ranks, p = ranks.iloc[:MOST], p[:MOST, :MOST]
    at = ranks.to_numpy()
    bars = sorted(([at[i] for i in group] for group in find_ties(p)), key=lambda bar: (bar[0], bar[-1]))
    half = (len(ranks) + 1) // 2
    below = 0.15 + BAR * len(bars)  # inches between the axis and the first name
    height = below + ROW * (half + 1)
    figure = Figure(figsize=(WIDTH, height + 0.4))
    axis = figure.add_axes((0.25, 0, 0.5, height / (height + 0.4)))
    first, last = np.floor(at.min()), max(np.ceil(at.max()), np.floor(at.min()) + 1)
    axis.set(xlim=(first, last), ylim=(height, 0), yticks=[], xticks=np.arange(first, last + 1))
    axis.xaxis.tick_top()
    for side in ("left", "right", "bottom"):
        axis.spines[side].set_visible(False)
    line: dict[str, Any] = {"color": "#1c1c28", "linewidth": 0.8, "clip_on": False}
    for i, (model, rank) in enumerate(ranks.items()):
        is_left = i < half
        y = below + ROW * (i if is_left else len(ranks) - 1 - i)
        end = first if is_left else last
        axis.plot([rank, rank, end], [0, y, y], **line)
        words = f"{model}  {rank:.2f}" if is_left else f"{rank:.2f}  {model}"
        offset = (-4, 0) if is_left else (4, 0)
        align: dict[str, Any] = {
            "ha": "right" if is_left else "left",
            "va": "center",
            "fontsize": 9,
            "annotation_clip": False,
        }
        axis.annotate(words, (end, y), offset, textcoords="offset points", **align)
    for row, bar in enumerate(bars):
        # a dot for each of its models: others may lie between them
        axis.plot(bar, [BAR * (row + 1)] * len(bar), color="#d55e00", linewidth=2.5, marker="o", markersize=4)
    return figure
