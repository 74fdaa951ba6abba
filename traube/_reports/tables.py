"""The leaderboard, made of cells and scores."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from traube._core import paths
from traube._core.disk import read_json
from traube._core.errors import Corrupt
from traube._core.frames import stack
from traube._core.hashing import digest, file_sha256, frame_digest
from traube._pipeline.current import current_cells, drop_sweeps
from traube._pipeline.kinds import kinds
from traube._pipeline.lookup import Lookup
from traube._pipeline.params import Protocol
from traube._pipeline.present import CHOICE
from traube._reports.found import COLUMNS as FOUND
from traube._reports.found import found_k
from traube._storage import Document, Storage, write_table
from traube.comparison.candidates import WITHOUT_LABELS, about, main_metric
from traube.comparison.family import OUTSIDE, Lasting, is_compared, list_lasting
from traube.comparison.jackknife import Sample, compute_intervals
from traube.comparison.ranking import rank
from traube.comparison.samples import make_samples
from traube.comparison.standings import choose_best_method
from traube.comparison.verdict import format_score
from traube.components.method import name_methods
from traube.models.checkpoints import trained_on
from traube.tasks.stored import get_card
from traube.tasks.task import TaskCard

COLUMNS = {  # and what each means
    "task": "Task that the score is of.",
    "family": "Family of tasks that the task is part of.",
    "level": "Column of labels that clusters are compared with.",
    "protocol": "Protocol of the benchmark: its methods and seeds.",
    "own_choice": "Whether somebody chose methods or seeds beside the protocol's.",
    "model": "Model whose vectors are clustered.",
    "method": "Reducer and clusterer.",
    "metric": "Metric of the score.",
    "mean": "Score, at most 1: unweighted mean over splits of the mean over seeds.",
    "sd": "Population standard deviation over splits, or over seeds where there is one split.",
    "low": "Lower end of the 95 % confidence interval (CI) of the mean.",
    "high": "Upper end of the 95 % confidence interval (CI) of the mean.",
    "splits": "Number of splits.",
    "seeds": "Number of seeds.",
    "best": "Whether this is the model's best method on the task at this level.",
    "rank_low": "Best rank that the data allow.",
    "rank_high": "Worst rank that the data allow; models whose ranks overlap are tied.",
    "p": "p-value of the first model against this one, corrected for all comparisons.",
    "comparisons": "Number of comparisons that p is corrected for.",
    "verdict": "Id of the verdict on the first model against this one, which all surfaces quote.",
    "compared": "Whether the model is compared with others, and ranked.",
    "seen": "Whether the model was trained on the task's texts.",
    "missing": "Number of the protocol's cells that are not computed for the model.",
    "note": "What to bear in mind of interval and ranks.",
    "status": "done, or why there is no score: failed, unsupported or unavailable.",
    "reason": "Reason of a status other than done.",
    "fingerprint": "Hash of the model's weights and settings.",
    "precision": "Precision of the model's vectors, such as fp32.",
    "data_version": "Hash of the task's data.",
    "created": "Time of the last result.",
    **FOUND,
}
KEYS = ["task", "family", "protocol", "own_choice", "model", "method", "fingerprint", "data_version"]
INTERVAL = "95 % CI"  # title of that column
DEFAULTS = {"own_choice": False, "precision": ""}  # of cells that do not say it
ROOMS = Path(__file__).parents[1]
ONE_SEED = "one split and one seed: the interval leaves out what another seed would give, and no rank is decided by it"
CLUSTERINGS = "clusterings"  # key of the kept rows
OWN_SPACES = "each model's silhouette is measured in its own vector space, so models have no ranks"


class KeptRows(Document):
    """Rows of the leaderboard, as they were made last."""

    kind: ClassVar[str] = "leaderboard"
    made_of: str  # a hash of all that they are made of


def summary(
    cells: pd.DataFrame,
    scores: pd.DataFrame,
    cards: Mapping[str, TaskCard],
    metric: str | None = None,
    protocols: Mapping[str, Protocol] | None = None,
    lasting: Lasting | None = None,
) -> pd.DataFrame:
    """Return one row per task, level, protocol, own choice or not, model and method.

    `mean` is the unweighted mean over splits of the mean over seeds, `sd` the population standard
    deviation over splits, or over seeds where there is one split.
    `low` and `high` are the 95 % interval of the mean (`traube.comparison.jackknife`).

    Ranks are those of each model's best method (`traube.comparison.ranking`), `rank_low` to
    `rank_high`: models whose ranks overlap are tied. `p`, `comparisons` and `verdict` (its id) are of
    the verdict on the first model against this one. The best method is chosen again in each
    replicate of the interval and of the tests, so that its choice is part of them. With one split
    and one seed, the interval holds what the texts explain only, and no rank is decided by it.
    Silhouettes have no ranks: each model's is of its own vectors. `note` says so.

    Parameters
    ----------
    cells : DataFrame
        Cells as the storage gives them; the column `own_choice`, if there is one, is that of `traube._pipeline.current`.
    scores : DataFrame
        Scores as the storage gives them, with replicates.
    cards : mapping of str to TaskCard
        Cards by task, which name the main metric.
    metric : str, optional
        A metric in place of the main metrics.
    protocols : mapping of str to Protocol, optional
        Protocols by name; their main metric goes before the card's.
    lasting : mapping of str to collection of str, optional
        Models that are always compared, by task, as in `traube.comparison.family`. By default all models are compared.

    Returns
    -------
    DataFrame
        With COLUMNS; `best` marks the best method of each task, level, protocol and model. Rows of cells that are not done
        have an empty level and a status with its reason. `seen` and `missing` are for `leaderboard` to fill: whether the
        model was trained on the task's texts, and how many cells of the protocol are not computed for it; so are the last
        columns, of methods with a k of their own (`traube._reports.found`).
    """
    cells = cells.assign(**{name: value for name, value in DEFAULTS.items() if name not in cells})
    cells = cells.assign(method=name_methods(cells), compared=True if lasting is None else is_compared(cells, lasting))
    table, samples = _scored(cells, scores, cards, metric, protocols or {})
    others = cells[cells["status"] != "done"].drop_duplicates([*KEYS, "status"])
    others = others[[*KEYS, "compared", "precision", "status", "reason", "created"]].assign(level="", metric="")
    table = pd.concat([table, others], ignore_index=True) if len(others) else table
    table = table.reindex(columns=[*COLUMNS, "sample"]).assign(best=False, verdict="", seen=False, missing=0)
    table["compared"] = table["compared"].astype(bool)
    order = ["task", "level", "protocol", "own_choice", "mean", "model", "method"]
    table = table.sort_values(order, ascending=[column != "mean" for column in order], ignore_index=True)
    # for matrices this small, threads wait for each other; and sums keep their order
    with threadpool_limits(1, "blas"):
        groups = table[table["mean"].notna()].groupby(["task", "level", "protocol", "own_choice"])
        ranked = [_rank(group, samples) for _, group in groups]
    if ranked:
        chosen = pd.concat(ranked)
        for column in chosen:
            table.loc[chosen.index, column] = chosen[column]
    return table[list(COLUMNS)]


def _scored(
    cells: pd.DataFrame,
    scores: pd.DataFrame,
    cards: Mapping[str, TaskCard],
    metric: str | None,
    protocols: Mapping[str, Protocol],
) -> tuple[pd.DataFrame, list[Sample]]:
    """Return a row for each group of cells that are done, without ranks, and each row's sample."""
    done = cells[cells["status"] == "done"]
    heads = done.drop_duplicates(KEYS)[[*KEYS, "compared", "precision"]]
    rows = done[["cell_id", "seed", "created"]].assign(head=done.groupby(KEYS, sort=False, dropna=False).ngroup())
    rows = rows.merge(scores, on="cell_id")
    levels, names = pd.factorize(rows["level"])
    row_keys = rows["head"].to_numpy() * len(names) + levels
    wanted = _main_metrics(heads, cards, metric, protocols)
    is_wanted = (rows["metric"] == rows["head"].map(dict(enumerate(wanted)))).to_numpy()
    if not metric:  # as `metric_of`
        without = (rows["metric"] == WITHOUT_LABELS).to_numpy() & ~np.isin(row_keys, row_keys[is_wanted])
        is_wanted = is_wanted | without
    rows = rows[is_wanted]
    codes, found_keys = pd.factorize(row_keys[is_wanted])
    groups = rows.groupby(codes)
    group_rows = make_samples(rows, codes, (groups["seed"].count() > 0).tolist())
    samples = [row.sample for row in group_rows]
    low, high = compute_intervals(samples).T
    table = heads.iloc[found_keys // max(len(names), 1)].assign(
        **{"level": names[found_keys % max(len(names), 1)], "metric": groups["metric"].first().to_numpy()},
        **{"status": "done", "reason": ""},
        **{"mean": [row.mean for row in group_rows], "sd": [row.sd for row in group_rows], "low": low, "high": high},
        **{"seeds": [row.cells for row in group_rows], "splits": [len(sample.values) for sample in samples]},
        **{"sample": range(len(group_rows)), "created": groups["created"].max().to_numpy()},
    )
    table["note"] = np.where([sample.is_complete for sample in samples], "", ONE_SEED)
    table.loc[~table["compared"].astype(bool), "note"] = OUTSIDE
    table.loc[table["metric"] == WITHOUT_LABELS, "note"] = OWN_SPACES
    return table, samples


def _main_metrics(
    rows: pd.DataFrame, cards: Mapping[str, TaskCard], metric: str | None, protocols: Mapping[str, Protocol]
) -> list[str]:
    """Return the metric that each row is ranked by, if its task has labels."""
    keys = list(zip(rows["task"].tolist(), rows["protocol"].tolist(), strict=True))
    known = {key: metric or main_metric(cards.get(key[0]), protocols.get(key[1])) for key in set(keys)}
    return [known[key] for key in keys]


def _rank(group: pd.DataFrame, samples: Sequence[Sample]) -> pd.DataFrame:
    """Return each model's best method, the first of equal ones, with an interval and ranks."""
    firsts = group.drop_duplicates("model")
    by_model: dict[str, list[Sample]] = {}
    for model, number in zip(group["model"].tolist(), group["sample"].tolist(), strict=True):
        by_model.setdefault(model, []).append(samples[int(number)])
    chosen = [choose_best_method(method_samples) for method_samples in by_model.values()]
    table = pd.DataFrame(compute_intervals(chosen), firsts.index, ["low", "high"]).assign(best=True)
    # each model's silhouette is of its own vectors, in its own space: that does not compare
    is_ranked = firsts["compared"].to_numpy(dtype=bool)
    if WITHOUT_LABELS in set(group["metric"]) or not is_ranked.any():
        return table
    head, names = firsts.iloc[0], firsts["model"][is_ranked].tolist()
    in_family = [sample for sample, is_one in zip(chosen, is_ranked, strict=True) if is_one]
    ranking = rank(names, in_family, about(head["task"], head["level"], head["metric"], head["protocol"]))
    verdicts = [ranking.verdict(ranking.names[0], model) for model in ranking.names[1:]]
    table.loc[is_ranked, ["rank_low", "rank_high"]] = ranking.ranks
    table.loc[is_ranked, "p"] = [np.nan, *(verdict.p for verdict in verdicts)]
    table.loc[is_ranked, "comparisons"] = [np.nan, *(verdict.comparisons for verdict in verdicts)]
    table["verdict"] = ""
    table.loc[is_ranked, "verdict"] = ["", *(verdict.id for verdict in verdicts)]
    return table


def metric_of(card: TaskCard | None, protocol: Protocol | None, metrics: pd.Series) -> str:
    """Return the main metric of a task, or the silhouette where there are no labels."""
    wanted = main_metric(card, protocol)
    return wanted if (metrics == wanted).any() else WITHOUT_LABELS


def _with_found_k(
    table: pd.DataFrame, storage: Storage, cells: pd.DataFrame, protocols: Mapping[str, Protocol]
) -> pd.DataFrame:
    cluster_counts = found_k(storage, cells, {name: protocol.split_set for name, protocol in protocols.items()})
    if cluster_counts.empty:
        return table
    cells = cells.assign(method=name_methods(cells))
    rows = cluster_counts.merge(cells[["cell_id", *KEYS]]).groupby([*KEYS, "level"], as_index=False)[list(FOUND)].mean()
    return table.drop(columns=list(FOUND)).merge(rows, how="left", on=[*KEYS, "level"])[list(COLUMNS)]


def _choose_best(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a kind that is not ranked, with each model's best on each task; without ranks."""
    rows = rows.sort_values(["task", "mean", "model", "method"], ascending=[True, False, True, True])
    is_best = ~rows.duplicated(["task", "model"]) & rows["mean"].notna()
    return rows.assign(best=is_best, verdict="", compared=True).reindex(columns=list(COLUMNS))


def _of_clusterings(
    storage: Storage, cells: pd.DataFrame, metric: str | None, protocols: Mapping[str, Protocol], keep: bool
) -> pd.DataFrame:
    """Return a row for each method on each task of a ranked kind; as it was kept, if scores have not changed."""
    cards = {task: card for task in cells["task"].unique() if (card := get_card(storage, task))}
    lasting = list_lasting(storage)
    made_of = "" if metric else _made_of(cells, cards, protocols, lasting)
    with suppress(Corrupt):
        kept = storage.get_document(KeptRows, CLUSTERINGS)
        if kept and kept.made_of == made_of:
            return storage.read_table(kept.files["table"])
    mains = _main_metrics(cells, cards, metric, protocols)
    scores = storage.read_scores(cells, set(mains), replicates=True)
    if not metric:
        keys = scores[["cell_id", "metric"]].drop_duplicates()
        known = set(zip(keys["cell_id"].tolist(), keys["metric"].tolist(), strict=True))
        has_main = np.array([key in known for key in zip(cells["cell_id"].tolist(), mains, strict=True)], dtype=bool)
        others = storage.read_scores(cells[~has_main], {WITHOUT_LABELS}, replicates=True)
        scores = pd.concat([scores, others], ignore_index=True) if len(others) else scores
    table = _with_found_k(summary(cells, scores, cards, metric, protocols, lasting), storage, cells, protocols)
    if keep:
        storage.save_document(KeptRows(key=CLUSTERINGS, made_of=made_of), {"table": write_table(table)})
    return table


def _made_of(
    cells: pd.DataFrame, cards: Mapping[str, TaskCard], protocols: Mapping[str, Protocol], lasting: Lasting
) -> str:
    """Return a hash of all that rows are made of, the code of comparisons and tables included."""
    code = [file_sha256(file) for room in ("comparison", "_reports") for file in sorted(ROOMS.glob(f"{room}/*.py"))]
    settings = [{name: one.model_dump(mode="json") for name, one in named.items()} for named in (cards, protocols)]
    compared = is_compared(cells, lasting)
    return digest([frame_digest(cells[["cell_id", "created", CHOICE]].assign(compared=compared)), settings, code])


def _missing(cells: pd.DataFrame, protocols: Mapping[str, Protocol]) -> dict[tuple[str, str, str], int]:
    """Count cells that are not computed, by task, protocol and model.

    The best of few methods does not compare to the best of all.
    """
    official_cells = cells[~cells["own_choice"] & cells["status"].isin(("done", "unsupported"))]
    counts = official_cells.groupby(["task", "protocol", "model"]).size()
    requested = {
        name: sum(len(protocols[name].seeds) if method.seeded else 1 for method in protocols[name].methods())
        for name in official_cells["protocol"].unique()
        if name in protocols
    }
    return {key: requested[key[1]] - int(count) for key, count in counts.items() if key[1] in requested}


def show_name(row: Any) -> str:
    """Return a model's name, with its precision if not fp32, and its marks.

    The marks are: trained on the task's texts, and not all cells computed.
    """
    marks = ("\N{DAGGER}" if row.seen else "") + ("*" if row.missing else "")
    return " ".join(filter(None, [row.model, "(bf16)" if row.precision == "bf16" else "", marks]))


def show_interval(row: Any) -> str:
    """Return a score's 95 % confidence interval x100 for a table; a dash if there is none."""
    return "-" if pd.isna(row.low) else interval_in_words(row.low, row.high, row.metric, 2)


def interval_in_words(low: float, high: float, metric: str, digits: int) -> str:
    """Return an interval x100, cut at the ends of the metric's scale, in words."""
    least = -1.0 if any(metric.split("/")[0] in kind.signed_metrics for kind in kinds()) else 0.0
    return f"{100 * max(low, least):.{digits}f} to {100 * min(high, 1.0):.{digits}f}"


def show_rank(row: Any) -> str:
    """Return the ranks of a leaderboard's row in words: `1`, `2–3 (tied)`, or a dash if there are none."""
    low, high = row.rank_low, row.rank_high
    if pd.isna(low):
        return "-"
    return f"{low:.0f}" if low == high else f"{low:.0f}–{high:.0f} (tied)"


def show_row(row: Any, method: str = "method") -> dict[str, str]:
    """Return a row of the leaderboard by the columns that every surface shows; `method` is that column's title."""
    return {
        "rank": show_rank(row),
        "model": show_name(row),
        method: row.method,
        "score": format_score(row.mean),
        INTERVAL: show_interval(row),
    }


def show_best(table: pd.DataFrame) -> pd.DataFrame:
    """Return each model's best method as people read it, with the id of the verdict on the first model against it."""
    about = ("task", "level", "protocol", "own_choice", "metric", "verdict")
    best = table[table["best"].astype(bool)].itertuples(index=False)
    return pd.DataFrame([{**show_row(row), **{name: getattr(row, name) for name in about}} for row in best])


NAME, CSV, MADE_OF = "leaderboard.parquet", "leaderboard.csv", "leaderboard.json"
REBUILT = "published.json"  # what registry and report were made of


def state(storage: Storage) -> str:
    """Return a hash of everything that the leaderboard is made of: cells, tasks, params.yaml."""
    params = paths.params()
    return digest([storage.get_state(), params.stat().st_mtime_ns if params.exists() else 0])


def leaderboard_is_current(storage: Storage) -> bool:
    """Return whether the leaderboard was made of what is stored now."""
    return read_json(storage.get_table_path(MADE_OF)) == made_now(storage, state(storage))


def tables_are_current(storage: Storage) -> bool:
    """Return whether leaderboard, registry and report were made of what is stored now."""
    made_of, published = read_json(storage.get_table_path(MADE_OF)), read_json(storage.get_table_path(REBUILT))
    return made_of == published == made_now(storage, state(storage))


def mark_outdated(storage: Storage) -> None:
    """Mark all tables as outdated, so that the next run makes them: one could not be made, or shows what no longer counts."""
    for name in (REBUILT, MADE_OF):
        storage.get_table_path(name).unlink(missing_ok=True)


def made_now(storage: Storage, state: str) -> dict[str, Any]:
    """Return the record of tables made of a state: the state and their content hashes, without missing tables."""
    tables = {name: file_sha256(path) for name in (NAME, CSV) if (path := storage.get_table_path(name)).is_file()}
    return {"state": state, "files": tables}


def leaderboard(
    storage: Storage,
    unavailable: Mapping[str, str] | None = None,
    metric: str | None = None,
    protocols: Mapping[str, Protocol] | None = None,
    lookup: Lookup | None = None,
    tasks: Collection[str] | None = None,
    stored: pd.DataFrame | None = None,
    keep: bool = False,
) -> pd.DataFrame:
    """Return the whole leaderboard, from what is stored, without sweeps, which compare a method with itself.

    Parameters
    ----------
    storage : Storage
        The storage of cells and scores.
    unavailable : mapping of str to str, optional
        Reason by task or model that is requested and unavailable; shown as rows of that status.
    metric : str, optional
        A metric in place of the main metrics.
    protocols : mapping of str to Protocol, optional
        Protocols by name.
    lookup : Lookup, optional
        Lookup of the models as they are now. By default a new one.
    tasks : collection of str, optional
        The tasks whose rows are returned. By default all tasks.
    stored : DataFrame, optional
        All cells, if they have been read before.
    keep : bool, default=False
        Whether to keep what is made of scores for the next call, until the scores change.
    """
    protocols = protocols or {}
    lookup = lookup or Lookup()
    stored = storage.read_cells() if stored is None else stored
    stored = stored if tasks is None else stored[stored["task"].isin(tasks)]
    tables = []
    for kind in kinds():
        cells = current_cells(storage, protocols, kind=kind, own_choice=True, lookup=lookup, stored=stored)
        if kind.is_ranked:
            cells = drop_sweeps(cells, protocols)
            rows, missing = _of_clusterings(storage, cells, metric, protocols, keep), _missing(cells, protocols)
            keys = zip(*(rows[name].tolist() for name in ("task", "protocol", "model", "own_choice")), strict=True)
            tables.append(rows.assign(missing=[0 if is_own else missing.get((*key,), 0) for *key, is_own in keys]))
        elif not metric:
            cells = cells.assign(method=kind.name_methods(cells))
            tables.append(_choose_best(kind.leaderboard_rows(storage, cells, lookup)))
    table = stack(tables)
    seen = {model: trained_on(model) for model in table["model"].unique()}
    table["seen"] = [seen[model] == task for task, model in zip(table["task"], table["model"], strict=True)]
    absent = {
        "task": "",
        "status": "unavailable",
        "own_choice": False,
        "best": False,
        "seen": False,
        "missing": 0,
        "compared": True,
    }
    rows = [{**absent, "model": name, "reason": reason} for name, reason in (unavailable or {}).items()]
    return pd.concat([table, pd.DataFrame(rows, columns=list(COLUMNS))], ignore_index=True) if rows else table
