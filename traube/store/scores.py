"""The scores of cells: a file each, and an index of them, in which one metric's rows are
read without the others.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from traube.foundation.seals import check
from traube.store.index import FEW, NAME, PART, Index, stamps
from traube.tasks.task import read_table

SCORE_COLUMNS = ("cell_id", "split", "level", "metric", "value")
SCORES = pa.schema(
    {
        **dict.fromkeys(("cell_id", "split", "level", "metric"), pa.string()),
        "value": pa.float64(),
        "replicates": pa.list_(pa.float32()),  # the value without each group of texts (`traube.comparison.jackknife`)
    }
)
SUFFIX = ".scores.parquet"
ROW = "row"  # the place of a row in its file: tables are in the order of files, whatever they were read from
_CHECKED = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)


def read_scores(
    folder: Path, index: Index, cell_ids: Sequence[str], metrics: Iterable[str] | None, columns: Sequence[str]
) -> pa.Table:
    """The scores of a task's cells, in the order of the cells, and of the rows in each cell's file.

    Parameters
    ----------
    folder : with a file for each cell
    metrics : by default all

    Raises
    ------
    TraubeError
        If a file of them is absent or damaged.
    """
    wanted = None if metrics is None else sorted(set(metrics))
    if len(cell_ids) <= FEW:
        return _from_files(folder, cell_ids, wanted).select(list(columns))
    present = stamps(folder, SUFFIX)
    inner = [column for column in columns if column != "cell_id"]
    tables, covered = index.read(present, [*inner, ROW], wanted, cell_ids)
    absent = [cell for cell in cell_ids if cell not in covered]
    for start in range(0, len(absent), PART):
        cells = absent[start : start + PART]
        if len(absent) > FEW:
            rows = _numbered(_from_files(folder, cells, None))
            index.add(_by_metric(rows), {cell: present[cell] for cell in cells})
            rows = rows if wanted is None else rows.filter(pc.is_in(rows["metric"], pa.array(wanted, pa.string())))
        else:
            rows = _numbered(_from_files(folder, cells, wanted))
        tables.append(rows.select([NAME, *inner, ROW]))
    rows = pa.concat_tables([table.cast(tables[0].schema) for table in tables])
    place = pc.index_in(rows[NAME], pa.array(cell_ids, pa.string()))
    order = pc.sort_indices(rows.append_column("place", place), [("place", "ascending"), (ROW, "ascending")])
    return rows.rename_columns({NAME: "cell_id"}).select(list(columns)).take(order)


def _numbered(rows: pa.Table) -> pa.Table:
    return rows.rename_columns({"cell_id": NAME}).append_column(ROW, pa.array(range(len(rows)), pa.int32()))


def _by_metric(rows: pa.Table) -> dict[str, pa.Table]:
    """A table for each metric, so that it can be read without the others."""
    return {metric: rows.filter(pc.equal(rows["metric"], metric)) for metric in pc.unique(rows["metric"]).to_pylist()}


def _from_files(folder: Path, cell_ids: Sequence[str], metrics: Sequence[str] | None) -> pa.Table:
    files = [folder / f"{cell}{SUFFIX}" for cell in cell_ids]
    wanted = None if metrics is None else ds.field("metric").isin(list(metrics))
    try:
        for file in files:
            check(file)
        return ds.dataset([str(file) for file in files], SCORES, format=_CHECKED).to_table(filter=wanted)
    except Exception:  # whatever a damaged file raises; read one by one, it is named
        for file in files:
            read_table(file, SCORE_COLUMNS)
        raise
