"""What papers printed, read from the csv files of their folders. What is printed wrong stays as
printed; a note says what is right.
"""

from importlib.resources import files

import pandas as pd


def printed(paper: str, name: str) -> pd.DataFrame:
    """A csv file of a paper's folder `published`, as it is.

    Parameters
    ----------
    paper : the paper's package, `__package__` in its modules
    name : of the file, without `.csv`
    """
    with files(paper).joinpath("published", f"{name}.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file, comment="#")


def one_a_row(grid: pd.DataFrame, rows: str | list[str], column: str, value: str = "published") -> pd.DataFrame:
    """A grid as a table with a number a row, in the order in which one reads.

    Parameters
    ----------
    grid : numbers; its index says which row it is
    rows, column, value : names of the columns that are made
    """
    named = grid.rename_axis(index=rows, columns=column)
    return named.stack(future_stack=True).rename(value).reset_index()  # noqa: PD013 (melt goes column by column)


def with_errata(table: pd.DataFrame, errata: pd.DataFrame, name: str) -> pd.DataFrame:
    """A published table with a note beside each number that is known to be printed wrong.

    Parameters
    ----------
    table : its first two columns say which number it is
    errata : table, row, column, printed, right, why
    name : of the table, in the errata
    """
    row, column = table.columns[:2]
    wrong = errata[errata["table"] == name]
    notes = {(e.row, e.column): f"printed wrong: {e.right:g} is right ({e.why})" for e in wrong.itertuples()}
    return table.assign(note=[notes.get(key, "") for key in zip(table[row], table[column], strict=True)])
