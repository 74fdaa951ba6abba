"""Numbers that papers printed, from the csv files of their folders. Misprints stay; a note says what is right."""

from dataclasses import dataclass
from importlib.resources import files

import pandas as pd


@dataclass(frozen=True)
class Published:
    """The numbers that a paper printed: csv files in its folder `published`."""

    package: str  # the paper's, `__package__` in its modules

    def __call__(self, name: str) -> pd.DataFrame:
        """Return a file as it is; `name` is without `.csv`."""
        with files(self.package).joinpath("published", f"{name}.csv").open(encoding="utf-8") as file:
            return pd.read_csv(file, comment="#")

    def grid(self, name: str, row: str, column: str = "column") -> pd.DataFrame:
        """Return a table with a number a row, without its empty cells.

        Returns
        -------
        DataFrame
            `row`, `column`, `published`; and `erratum`, where the paper has errata: beside each number
            that is known to be printed wrong, what is right.
        """
        table = stack_grid(self(name).set_index(row), row, column).dropna()
        if not files(self.package).joinpath("published", "errata.csv").is_file():
            return table
        errata = self("errata")
        wrong = errata[errata["table"].str.replace("_", "") == name.replace("_", "")]
        notes = {(e.row, e.column): f"printed wrong: {e.right:g} is right ({e.why})" for e in wrong.itertuples()}
        return table.assign(erratum=[notes.get(key, "") for key in zip(table[row], table[column], strict=True)])


def stack_grid(grid: pd.DataFrame, rows: str | list[str], column: str, value: str = "published") -> pd.DataFrame:
    """Convert a grid of numbers, its index naming the rows, to a table with a number a row, in reading order.

    `rows`, `column` and `value` name the columns that are made.
    """
    named = grid.rename_axis(index=rows, columns=column)
    return named.stack(future_stack=True).rename(value).reset_index()  # noqa: PD013 (melt goes column by column)
