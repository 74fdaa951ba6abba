"""Data quality: Great Expectations suites as the source of Dagster's asset checks.

A check is a name that people see in Dagster and a few rules; a rule is one expectation on one column. What an
expectation cannot say by itself (how often a text occurs in its split, how many classes a split has) is computed
beforehand as a column of *facts*; the expectation then states the rule, and Great Expectations finds the rows that
break it.

Great Expectations takes seconds to import, so that is done where a table is validated, never when definitions are
loaded.
"""

import html
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import dagster as dg
import pandas as pd

from traube.foundation import paths
from traube.foundation.files import locked, write_text
from traube.store import Store
from traube.tasks.task import CORPUS_COLUMNS, NULLABLE, PARTS, SPLIT_COLUMNS, Declared, TaskCard

SHORTEST = 3  # characters: what is shorter says nothing about a topic
LONGEST = 100_000  # characters, some forty pages: what is longer is likely a file that was read as one text
SMALLEST_CLASS = 3  # texts of a class in a test split: a class of one or two texts is hardly a cluster to be found
SHOWN_ROWS = 20
SHOWN_CHARACTERS = 120

SPLIT = ("split_set", "split", "level")  # what names one clustering problem

Table = Literal["corpus", "splits"]
Size = Literal["splits", "rows", "classes"]  # fields of a card's `declared`


@dataclass(frozen=True)
class Rule:
    """One expectation on one column. Rows in which the column is null are not judged.

    Attributes
    ----------
    says : the rule in words
    expectation : name of a class in `great_expectations.expectations`
    arguments : what it is called with
    declared : field of the task's card that gives the least and the greatest value; without it there is no such rule
    """

    says: str
    expectation: str
    arguments: dict[str, Any] = field(default_factory=dict)
    declared: Size | None = None


@dataclass(frozen=True)
class Check:
    """A named check of an asset.

    Attributes
    ----------
    blocking : whether a failure stops the task; otherwise it warns, unless the task's card says that it blocks
    one_row_per : columns; of the offending rows that agree in them one is shown
    """

    name: str
    description: str
    blocking: bool
    rules: tuple[Rule, ...]
    one_row_per: tuple[str, ...] = ()


def _not_null(column: str, says: str) -> Rule:
    return Rule(says, "ExpectColumnValuesToNotBeNull", {"column": column})


def _unique(column: str, says: str) -> Rule:
    return Rule(says, "ExpectColumnValuesToBeUnique", {"column": column})


def _among(column: str, values: Sequence[Any], says: str) -> Rule:
    return Rule(says, "ExpectColumnValuesToBeInSet", {"column": column, "value_set": list(values)})


def _between(column: str, says: str, least: int | None = None, greatest: int | None = None) -> Rule:
    return Rule(says, "ExpectColumnValuesToBeBetween", {"column": column, "min_value": least, "max_value": greatest})


def _as_declared(column: str, declared: Size, says: str) -> Rule:
    return Rule(says, "ExpectColumnValuesToBeBetween", {"column": column}, declared)


_NOT_EMPTY = Rule("the table has rows", "ExpectTableRowCountToBeBetween", {"min_value": 1})

CORPUS_CHECKS = (
    Check(
        "texts_present",
        "There are texts, and none is missing, empty or only white space.",
        True,
        (_NOT_EMPTY, _not_null("text", "the text is there"), _between("characters", "the text is not blank", least=1)),
    ),
    Check(
        "text_ids_unique",
        "Every text has an id of its own.",
        True,
        (_not_null("text_id", "the text has an id"), _unique("text_id", "the id occurs once")),
    ),
    Check("texts_unique", "A text is stored once.", False, (_unique("text", "the text occurs once"),)),
    Check(
        "text_lengths",
        f"Texts have {SHORTEST} to {LONGEST:,} characters.",
        False,
        (
            _between("characters", f"the text has {SHORTEST} characters or more", least=SHORTEST),
            _between("characters", f"the text has {LONGEST:,} characters or fewer", greatest=LONGEST),
        ),
    ),
    Check(
        "no_mojibake",
        "No text looks as if it was decoded with the wrong encoding.",
        False,
        (_among("mojibake", [False], "the text is decoded rightly"),),
    ),
)

SPLITS_CHECKS = (
    Check(
        "items_valid",
        "Every item of a split occurs once, belongs to a part and has a text of the corpus.",
        True,
        (
            _NOT_EMPTY,
            _among("complete", [True], f"nothing but {' and '.join(NULLABLE)} is null"),
            Rule(
                "the item occurs once in its split",
                "ExpectCompoundColumnsToBeUnique",
                {"column_list": [*SPLIT, "item"], "ignore_row_if": "never"},
            ),
            _among("part", PARTS, f"the part is one of {', '.join(PARTS)}"),
            _among("text_known", [True], "the text_id is in the corpus"),
        ),
    ),
    Check(
        "labels_present",
        "No label is null or blank, unless the whole task has no labels.",
        True,
        (_among("labelled", [True], "the row has a label"),),
    ),
    Check(
        "two_classes",
        "Every labelled test split has two classes or more.",
        True,
        (_between("classes_in_split", "the split has two classes or more", least=2),),
        one_row_per=SPLIT,
    ),
    Check(
        "declared_sizes",
        "There are as many test splits, rows and classes in them as the task's card declares.",
        True,
        (
            _as_declared("splits_in_set", "splits", "the split set has as many test splits as declared"),
            _as_declared("rows_in_split", "rows", "the test split has as many rows as declared"),
            _as_declared("classes_in_split", "classes", "the test split has as many classes as declared"),
        ),
        one_row_per=SPLIT,
    ),
    Check(
        "texts_once",
        "A text occurs once in a split.",
        False,
        (_between("times_in_split", "the text occurs once in its split and part", greatest=1),),
        one_row_per=(*SPLIT, "part", "text_id"),
    ),
    Check(
        "one_label",
        "Within a split set and a level, a text has one label.",
        False,
        (_between("labels_of_text", "the text has one label", greatest=1),),
        one_row_per=("split_set", "level", "text_id", "label"),
    ),
    Check(
        "class_sizes",
        f"In a test split, every class has {SMALLEST_CLASS} texts or more.",
        False,
        (_between("rows_of_class", f"the class has {SMALLEST_CLASS} texts or more", least=SMALLEST_CLASS),),
        one_row_per=(*SPLIT, "label"),
    ),
    Check(
        "parts_disjoint",
        "No text of a test split is among the split set's texts for training or validation.",
        False,
        (_among("seen_in_training", [False], "the text is not seen in training"),),
        one_row_per=("split_set", "text_id"),
    ),
)

CHECKS: dict[Table, tuple[Check, ...]] = {"corpus": CORPUS_CHECKS, "splits": SPLITS_CHECKS}


def check_specs(key: dg.AssetKey, card: TaskCard, table: Table) -> list[dg.AssetCheckSpec]:
    """Say which checks an asset declares."""
    return [
        dg.AssetCheckSpec(check.name, asset=key, description=check.description, blocking=_blocks(check, card))
        for check in CHECKS[table]
    ]


def _blocks(check: Check, card: TaskCard) -> bool:
    return check.blocking or check.name in card.blocking


class QualityResource(dg.ConfigurableResource):
    """Validates the tables of a task and keeps a page of Data Docs for each.

    Attributes
    ----------
    folder : where Data Docs are written, a page per task and table; by default `data_docs` in `TRAUBE_HOME`
    """

    folder: str = ""

    @property
    def root(self) -> Path:
        """The folder, as a path."""
        return Path(self.folder) if self.folder else paths.home() / "data_docs"

    def check_corpus(self, card: TaskCard, key: dg.AssetKey, corpus: pd.DataFrame) -> list[dg.AssetCheckResult]:
        """Validate a corpus; one result for each of the corpus' `check_specs`."""
        rows = corpus[list(CORPUS_COLUMNS)].reset_index(drop=True)
        return self._check(card, key, "corpus", rows.join(_corpus_facts(rows)), corpus)

    def check_splits(
        self, card: TaskCard, key: dg.AssetKey, splits: pd.DataFrame, corpus: pd.DataFrame
    ) -> list[dg.AssetCheckResult]:
        """Validate a splits table; one result for each of the splits' `check_specs`."""
        rows = splits[list(SPLIT_COLUMNS)].reset_index(drop=True)
        return self._check(card, key, "splits", rows.join(_split_facts(card, rows, corpus)), corpus)

    def _check(
        self, card: TaskCard, key: dg.AssetKey, table: Table, judged: pd.DataFrame, corpus: pd.DataFrame
    ) -> list[dg.AssetCheckResult]:
        with _great_expectations():
            validation = _validate(card, table, judged)
            findings = [_finding(check, validation.results, judged, corpus) for check in CHECKS[table]]
            page = _write_page(self.root, card.name, table, validation, findings)
        return [finding.result(key, _blocks(finding.check, card), page) for finding in findings]


def validate(store: Store, tasks: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Check stored tasks: by `task/table/check` whether it blocks, whether it passed, and how many rows offend."""
    quality, found = QualityResource(folder=str(paths.home() / "quality")), {}
    for task in tasks:
        card = store.card(task)
        if card is None:
            continue
        corpus, splits = store.corpus(task), store.task(card).splits
        results: dict[Table, list[dg.AssetCheckResult]] = {
            "corpus": quality.check_corpus(card, dg.AssetKey([task, "corpus"]), corpus),
            "splits": quality.check_splits(card, dg.AssetKey([task, "splits"]), splits, corpus),
        }
        for table, checks in results.items():
            for check, result in zip(CHECKS[table], checks, strict=True):
                rows = result.metadata["offending_rows"].value
                found[f"{task}/{table}/{check.name}"] = {
                    "blocking": _blocks(check, card),
                    "passed": result.passed,
                    "offending_rows": rows,
                }
    return found


# facts: columns that the rules speak of


def _corpus_facts(corpus: pd.DataFrame) -> pd.DataFrame:
    text = corpus["text"].astype("string[pyarrow]")
    return pd.DataFrame({"characters": text.str.strip().str.len(), "mojibake": _mojibake(text)})


def _mojibake(texts: pd.Series) -> pd.Series:
    """Whether a text looks like UTF-8 that was read as something else; null where there is no text."""
    from ftfy.badness import is_bad

    found = texts.str.contains(_ftfy_pattern())
    suspects = texts[found.fillna(False)]
    bad = pd.Series([is_bad(text) for text in suspects], suspects.index, dtype="boolean")
    return found & bad.reindex(texts.index, fill_value=True)


def _ftfy_pattern() -> str:
    """Write ftfy's pattern for the regular expressions of Arrow, which search fifty times as fast as Python's."""
    from ftfy.badness import BADNESS_RE

    # Arrow's know neither white space and comments in a pattern nor, behind \w and \s, characters outside ASCII
    compact = re.sub(r"(\[[^\]]*\])|#[^\n]*|\s", lambda match: match[1] or "", BADNESS_RE.pattern)
    return compact.replace(r"\w", r"[\w\pL\pN]").replace(r"\s", r"[\s\v\x1c-\x1f\pZ]")


def _split_facts(card: TaskCard, splits: pd.DataFrame, corpus: pd.DataFrame) -> pd.DataFrame:
    split = list(SPLIT)
    label = splits["label"].astype("string")
    rows = splits.assign(label=label.mask(label.str.strip() == ""))
    test = rows[rows["part"] == "test"]
    test_split = test.groupby(split, sort=False)
    classes = test_split["label"].transform("nunique")
    trained = rows["part"].isin(["train", "validation"])
    seen = trained.groupby([rows["split_set"], rows["text_id"]]).transform("any")
    expect_labels = rows["label"].notna().any() or card.declared.classes is not None
    facts = {
        "complete": rows[[c for c in SPLIT_COLUMNS if c not in NULLABLE]].notna().all(axis=1),
        "text_known": rows["text_id"].map(set(corpus["text_id"]).__contains__).astype(bool),  # isin is slow on strings
        "labelled": rows["label"].notna() if expect_labels else None,
        "splits_in_set": rows["split_set"].map(test.groupby("split_set")["split"].nunique()).fillna(0),
        "rows_in_split": test_split["text_id"].transform("size"),
        "classes_in_split": classes.where(classes > 0),  # a split without labels has no number of classes
        "times_in_split": rows.groupby([*split, "part", "text_id"], sort=False)["item"].transform("size"),
        "labels_of_text": rows.groupby(["split_set", "level", "text_id"], sort=False)["label"].transform("nunique"),
        "rows_of_class": test.groupby([*split, "label"], sort=False)["item"].transform("size"),
        "seen_in_training": seen[test.index],
    }
    return pd.DataFrame(facts, index=rows.index)


# validation


@contextmanager
def _great_expectations() -> Iterator[None]:
    """Great Expectations without the deprecation warnings of what it imports."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _validate(card: TaskCard, table: Table, judged: pd.DataFrame) -> Any:
    """Run the table's suite; return Great Expectations' result, with all offending rows."""
    import great_expectations as gx
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(),
        progress_bars=ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )
    context = gx.get_context(mode="ephemeral", project_config=config)
    asset = context.data_sources.add_pandas(card.name).add_dataframe_asset(table)
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": judged})
    suite = gx.ExpectationSuite(name=f"{card.name}/{table}", expectations=_expectations(card, table))
    # no values: user data is not escaped in Data Docs; no query: it lists every offending row once more
    wanted = {"result_format": "COMPLETE", "exclude_unexpected_values": True, "return_unexpected_index_query": False}
    validation: Any = batch.validate(suite, result_format=wanted)
    validation.meta["run_id"] = datetime.now(UTC).isoformat(timespec="seconds")  # the page's title shows it
    for result in validation.results:
        _refuse_error(result)
    return validation


def _expectations(card: TaskCard, table: Table) -> list[Any]:
    import great_expectations.expectations as gxe

    return [
        getattr(gxe, rule.expectation)(
            **rule.arguments,
            **_bounds(rule, card.declared),
            description=f"{check.name}: {rule.says}",
            severity="critical" if _blocks(check, card) else "warning",
            meta={"check": check.name, "says": rule.says},
        )
        for check in CHECKS[table]
        for rule in check.rules
        if rule.declared is None or getattr(card.declared, rule.declared) is not None
    ]


def _bounds(rule: Rule, declared: Declared) -> dict[str, int]:
    if rule.declared is None:
        return {}
    value = getattr(declared, rule.declared)
    least, greatest = (value, value) if isinstance(value, int) else value
    return {"min_value": least, "max_value": greatest}


def _refuse_error(result: Any) -> None:
    """Great Expectations reports its own errors as failed expectations; they are no verdict on the data."""
    error = result.exception_info or {}
    for entry in [error, *error.values()]:
        if isinstance(entry, dict) and entry.get("raised_exception"):
            raise RuntimeError(f"{result.expectation_config.meta['check']}: {entry['exception_message']}")


# findings


@dataclass(frozen=True)
class Finding:
    """What a check found.

    Attributes
    ----------
    rules : each rule in words, and how it fared
    offending, total : number of rows
    header, shown : the first offending rows as text, neither escaped nor long
    """

    check: Check
    passed: bool
    rules: dict[str, str]
    offending: int
    total: int
    header: list[str]
    shown: list[list[str]]

    @property
    def broken(self) -> str:
        """The rules that do not hold, in words."""
        return "; ".join(f"{says}: {fared}" for says, fared in self.rules.items() if fared != _HOLDS)

    def result(self, key: dg.AssetKey, blocking: bool, page: Path) -> dg.AssetCheckResult:
        """Give what Dagster shows of the finding."""
        metadata: dict[str, Any] = {
            "offending_rows": self.offending,
            "percent": round(100 * self.offending / max(self.total, 1), 3),
            "total_rows": self.total,
            "rules": dg.MetadataValue.json(self.rules),
            "data_docs": dg.MetadataValue.path(page),
        }
        if self.shown:
            metadata["examples"] = dg.MetadataValue.md(_markdown(self.header, self.shown))
        return dg.AssetCheckResult(
            passed=self.passed,
            asset_key=key,
            check_name=self.check.name,
            severity=dg.AssetCheckSeverity.ERROR if blocking else dg.AssetCheckSeverity.WARN,
            description=self.broken or None,
            metadata=metadata,
        )


def _finding(check: Check, results: Sequence[Any], judged: pd.DataFrame, corpus: pd.DataFrame) -> Finding:
    own = {r.expectation_config.meta["says"]: r for r in results if r.expectation_config.meta["check"] == check.name}
    positions = sorted({position for r in own.values() for position in r.result.get("unexpected_index_list") or []})
    header, shown = _examples(check, judged.iloc[positions], judged, corpus)
    return Finding(
        check=check,
        passed=all(result.success for result in own.values()),
        rules={rule.says: _fared(own[rule.says]) for rule in check.rules if rule.says in own},
        offending=len(positions),
        total=len(judged),
        header=header,
        shown=shown,
    )


_HOLDS = "holds"


def _fared(result: Any) -> str:
    if result.success:
        return _HOLDS
    rows = result.result.get("unexpected_count")
    return f"no, but {result.result.get('observed_value')}" if rows is None else f"not in {rows:,} rows"


def _examples(
    check: Check, offending: pd.DataFrame, judged: pd.DataFrame, corpus: pd.DataFrame
) -> tuple[list[str], list[list[str]]]:
    """Show the first offending rows: where they are, the facts that the check's rules speak of, label and text."""
    if check.one_row_per:
        offending = offending.drop_duplicates(list(check.one_row_per))
    rows = offending.head(SHOWN_ROWS)
    if rows.empty:
        return [], []
    if "text" not in rows:
        texts = corpus[corpus["text_id"].isin(rows["text_id"])].drop_duplicates("text_id").set_index("text_id")["text"]
        rows = rows.assign(text=rows["text_id"].map(texts))
    subjects = [rule.arguments.get("column", "") for rule in check.rules]
    places = [c for c in (*SPLIT, "item", "part") if c in rows and not _constant(c, judged)]
    columns = dict.fromkeys(c for c in [*places, *subjects, "text_id", "label", "text"] if c in rows)
    shown = [[_cell(value) for value in row] for row in rows[list(columns)].itertuples(name=None)]
    return ["row", *columns], shown


def _constant(column: str, judged: pd.DataFrame) -> bool:
    """Whether a column says nothing: most tasks have one split set and one part."""
    return column in ("split_set", "part") and len(judged[column].unique()) == 1


def _cell(value: Any) -> str:
    """Write a value as one short line of printable characters."""
    if pd.isna(value):
        return "(null)"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # a count that is null elsewhere in its column
    start = str(value).strip()[: 2 * SHOWN_CHARACTERS]
    line = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(start.split())) or "(blank)"
    return line if len(line) <= SHOWN_CHARACTERS else line[: SHOWN_CHARACTERS - 1] + "…"


_MARKUP = re.compile(r"[&<>|\\`*_\[\]~]")


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a Markdown table in which a text is only text: no HTML, no links, no images."""
    lines = [header, ["---"] * len(header), *([_escape(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def markdown(frame: pd.DataFrame) -> str:
    """A table as Markdown in which a text is only text."""
    return _markdown(
        [_escape(str(c)) for c in frame.columns], [[str(v) for v in row] for row in frame.itertuples(index=False)]
    )


def _escape(cell: str) -> str:
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", cell)


# Data Docs


def _write_page(folder: Path, task: str, table: Table, validation: Any, findings: Sequence[Finding]) -> Path:
    """Write the validation's page in place of the table's last one.

    The page is rendered here and not by Great Expectations' site builder, which would take every offending row through
    JSON, keep every page for ever, and show values (which it does not escape) but not the rows they are in.
    """
    from great_expectations.render.renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaPageView

    document = ValidationResultsPageRenderer(run_info_at_end=True).render(validation)
    document.sections[1:1] = [_section(finding) for finding in findings if not finding.passed]
    page = folder / "validations" / task / table / "latest" / "index.html"  # the page's link home goes up four folders
    write_text(page, DefaultJinjaPageView().render(document, show_how_to_buttons=False))
    _write_index(folder)
    return page


def _section(finding: Finding) -> Any:
    from great_expectations.render import RenderedHeaderContent, RenderedSectionContent, RenderedTableContent

    blocks: list[Any] = [RenderedHeaderContent(header=finding.check.name, subheader=finding.broken)]
    if finding.shown:
        cells = [[html.escape(cell) for cell in row] for row in finding.shown]
        styling = {"body": {"classes": ["table", "table-sm"]}}
        blocks.append(RenderedTableContent(table=cells, header_row=finding.header, styling=styling))
    return RenderedSectionContent(section_name=finding.check.name, content_blocks=blocks)


def _write_index(folder: Path) -> None:
    with locked(folder / "index.html"):
        pages = sorted(page.relative_to(folder) for page in folder.glob("validations/*/*/latest/index.html"))
        links = "\n".join(f'<li><a href="{p.as_posix()}">{p.parts[1]} / {p.parts[2]}</a></li>' for p in pages)
        head = '<!DOCTYPE html>\n<meta charset="utf-8">\n<title>Data Docs</title>\n<h1>Data Docs</h1>'
        write_text(folder / "index.html", f"{head}\n<ul>\n{links}\n</ul>\n")
