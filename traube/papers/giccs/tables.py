"""GiCCS' tables, printed and measured; and the correlation of a model's quality on similarity with that on clustering.

Agreement: TRAUBE_RAW/giccs/judgments.csv (annotator, item_1 to item_3, best, worst), items.csv (item, source,
turns).
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from traube._core.errors import TraubeError
from traube._core.paths import raw
from traube._pipeline.kinds.pairs import make_pair_cells, read_pair_scores
from traube._pipeline.pair_scores import list_comparisons
from traube._reports.papers.context import Context
from traube._reports.papers.published import Published, stack_grid
from traube.metrics.correlation import correlation
from traube.papers.giccs.agreement import Judgments, reliability
from traube.papers.giccs.best_worst import read_judgments
from traube.papers.giccs.multiple_choice import read_choices
from traube.papers.giccs.richness import richness
from traube.tasks import PAIRS as PAIR_TYPE
from traube.tasks import get_source
from traube.tasks.reading import read_rows
from traube.tasks.scored_pairs import ALL
from traube.tasks.stored import Manifest, get_card
from traube.tasks.task import Task

LEMMATIZER = "de_core_news_sm"
CHANCE = 0.2
DOUBTFUL = 2  # types for each lemma: more are hard to believe
FEWEST = 3  # models that a correlation is computed of
PAIRS = ("giccs", "stsb_de", "stsb_de_aws", "nlu_similarity_de")
# what clustering quality is looked up of
CLUSTERED = (
    *(
        "blurbs_s2s",
        "blurbs_p2p",
        "tenkgnad_s2s",
        "tenkgnad_p2p",
        "reddit_s2s",
        "reddit_p2p",
        "pydocs_s2s",
        "pydocs_p2p",
    ),
    *(
        "agnews",
        "searchsnippets",
        "stackoverflow",
        "biomedical",
        "googlenews_ts",
        "googlenews_t",
        "googlenews_s",
        "tweet",
    ),
)
TASKS = (*PAIRS, *CLUSTERED)

published = Published(__package__)


def load_stored(name: str) -> Task | None:
    """Return a pair task; None where its raw data is not here."""
    source = get_source(name, PAIR_TYPE)
    return None if source.missing() else source.load()


def agreement(context: Context) -> pd.DataFrame:
    """Measure table 1, alpha of slots, and in its two other readings (`alpha` of the agreement), % of strong agreement.

    The columns are source, measure, measured.
    """
    rows = []
    for source, judged in _read_judgments():
        measures = reliability(judged)
        rows += [
            (source, "alpha", measures.alpha),
            (source, "alpha_items", measures.alpha_items),
            (source, "alpha_pairs", measures.alpha_pairs),
            (source, "strong_best", 100 * measures.strong_best),
            (source, "strong_worst", 100 * measures.strong_worst),
        ]
    return pd.DataFrame(rows, columns=["source", "measure", "measured"])


def halves(context: Context) -> pd.DataFrame:
    """Measure table 3, as the paper computes it, three repetitions and no correction: source, measure, measured, sd."""
    rows = []
    for source, judged in _read_judgments():
        measures = reliability(judged)
        rows.append((source, "split_half", measures.split_half, measures.split_half_sd))
    return pd.DataFrame(rows, columns=["source", "measure", "measured", "sd"])


def _read_judgments() -> Iterator[tuple[str, Judgments]]:
    """Yield the judgments of each source and number of turns, in the order of the items' table."""
    answers, items = (raw() / "giccs" / name for name in ("judgments.csv", "items.csv"))
    if not (answers.is_file() and items.is_file()):
        return
    judged = read_judgments([answers]).judgments
    table = pd.DataFrame(read_rows(items).columns)
    groups = _name_dialogues(table["source"], table["turns"]).set_axis(table["item"])
    for group in groups.drop_duplicates():
        chosen = groups.reindex(list(judged.items)).to_numpy() == group
        yield group, judged.select_items(chosen)


def published_words() -> pd.DataFrame:
    """Return table 2 as it is printed: dialogues, measure, published, note."""
    table = published("table2")
    grid = table.set_index(_name_dialogues(table["domain"], table["turns"]).rename("dialogues"))
    rows = stack_grid(grid[["rttr", "mtld", "tokens", "lemmas", "turn_length"]], "dialogues", "measure")
    doubts = {row.Index: _doubt_words(row.rttr, row.tokens, row.lemmas) for row in grid.itertuples()}
    named = zip(rows["dialogues"], rows["measure"], strict=True)
    return rows.assign(
        note=[doubts[dialogues] if measure in ("rttr", "lemmas") else "" for dialogues, measure in named]
    )


def _name_dialogues(source: pd.Series, turns: pd.Series) -> pd.Series:
    return source + " " + turns.astype(str) + "-turn"


def _doubt_words(rttr: float, tokens: int, lemmas: int) -> str:
    """Return why RTTR, tokens and lemmas are hardly of one text, of which the paper says nothing; empty where they may be."""
    # RTTR is types over the root of tokens, so that it tells the types; each lemma has one type or more. Its tokens are
    # those of LexicalRichness, about as many as are printed: the row nearest to possible would need 44 % more
    types = rttr * np.sqrt(tokens)
    sum_ = f"RTTR {rttr:g} of {tokens} tokens means {rttr:g} * sqrt({tokens}) = {types:.1f} types"
    if lemmas > types + 0.005 * np.sqrt(tokens):  # however RTTR was rounded
        return f"doubtful: as of one text, {sum_}, and {lemmas} lemmas have at least {lemmas} types"
    if types > DOUBTFUL * lemmas:
        return f"doubtful: as of one text, {sum_}, {types / lemmas:.1f} for each of {lemmas} lemmas"
    return ""


def words(context: Context) -> pd.DataFrame:
    """Measure table 2, of each domain's dialogues as one text: dialogues, measure, measured, note.

    RTTR and MTLD are of the tokens of LexicalRichness, tokens and turn length of those between white space. Without
    spaCy's German model, types stand for lemmas.
    """
    task = load_stored("giccs")
    if task is None:
        return pd.DataFrame(columns=["dialogues", "measure", "measured", "note"])
    texts = task.corpus.set_index("text_id")["text"]
    dialogues = task.rows.drop_duplicates("dialogue")
    rows = []
    for name, group in dialogues.groupby(_name_dialogues(dialogues["domain"], dialogues["n_turns"]), sort=False):
        turns: list[str] = []
        for history, last in zip(group["history"], group["text_id_a"].map(texts), strict=True):
            turns += filter(None, [*history.split("\n"), last])
        richness_scores = richness(turns, LEMMATIZER)
        measured = {
            "rttr": richness_scores.rttr,
            "mtld": richness_scores.mtld,
            "tokens": richness_scores.tokens,
            "lemmas": richness_scores.types if richness_scores.lemmas is None else richness_scores.lemmas,
            "turn_length": float(np.mean([len(turn.split()) for turn in turns])),
        }
        counted = f"of {richness_scores.lexical_tokens} tokens of LexicalRichness"
        notes = {"rttr": counted, "mtld": counted}
        if richness_scores.lemmas is None:
            notes["lemmas"] = f"types: {LEMMATIZER} of spaCy is not installed"
        rows += [(name, measure, value, notes.get(measure, "")) for measure, value in measured.items()]
    return pd.DataFrame(rows, columns=["dialogues", "measure", "measured", "note"])


def published_contradictions() -> pd.DataFrame:
    """Return table 4 as it is printed: last_turn, utterance, published, note."""
    table = published("table4").rename(columns={"score": "published"})
    return table.assign(note="the expert says " + table["expert"]).drop(columns="expert")


def contradictions(context: Context) -> pd.DataFrame:
    """Return table 4, with what the data says of these pairs: last_turn, utterance, measured."""
    task = load_stored("giccs")
    if task is None:
        return pd.DataFrame(columns=["last_turn", "utterance", "measured"])
    texts = task.corpus.set_index("text_id")["text"]
    last_turn, utterance = task.rows["text_id_a"].map(texts), task.rows["text_id_b"].map(texts)
    pairs = pd.DataFrame({"last_turn": last_turn, "utterance": utterance, "measured": task.rows["score"]})
    return pairs.merge(published("table4")[["last_turn", "utterance"]]).drop_duplicates(["last_turn", "utterance"])


def published_correlations() -> pd.DataFrame:
    """Return table 5 as it is printed: model, metric, published, note."""
    note = "the text calls Spearman's r and Pearson's rho; the table's head is right"
    return published.grid("table5", "model", "metric").assign(note=note)


def correlations(name: str, metrics: Sequence[str], context: Context) -> pd.DataFrame:
    """Return table 5 and the German STS benchmark: model (as papers call it), metric, measured, low, high."""
    known = {*published("table5")["model"], *published("stsb_de")["model"]}
    rows = []
    for row in pair_scores(context, name).to_dict("records"):
        # papers write a model's id in the hub, or leave the organization out
        hub = context.model(row["model"], None).card.model or row["model"]
        model = next((candidate for candidate in (hub, hub.rpartition("/")[2]) if candidate in known), row["model"])
        rows += [(model, metric, row[metric], row[f"{metric}_low"], row[f"{metric}_high"]) for metric in metrics]
    return pd.DataFrame(rows, columns=["model", "metric", "measured", "low", "high"])


def pair_scores(context: Context, name: str) -> pd.DataFrame:
    """Return the stored scores of a pair task's test pairs, without history, by each model's usual comparison.

    There is a row for each model, from `read_pair_scores`. Empty where nothing is stored.
    """
    models = sorted(context.storage.read_cells(name)["model"].unique())
    if not models or (task := load_stored(name)) is None:
        return pd.DataFrame()
    manifest, cells = Manifest.of(task), []
    for model_name in models:
        try:
            model = context.model(model_name, None)
            made = make_pair_cells(manifest, model, list_comparisons(model)[:1])
        except TraubeError as error:
            context.warn(f"{name}: {model_name} is left out: {error}")
        else:
            cells += [cell.cell_id for cell in made if not cell.method.has_history]
    scores = read_pair_scores(context.storage, cells)
    return scores[scores["group"] == ALL].reset_index(drop=True) if len(scores) else scores


def published_choices() -> pd.DataFrame:
    """Return table 6 as it is printed: model, column, published, note."""
    table = published("table6")
    notes = [
        f"± {row.error:g}, the standard error sqrt(p (1 - p) / (n - 1)) of n = 30; below the {CHANCE:g} that guessing gives"
        for row in table.itertuples()
    ]
    return table.rename(columns={"accuracy": "published"}).assign(note=notes).drop(columns="error")


def choices(context: Context) -> pd.DataFrame:
    """Return table 6, by the sum of log probabilities as in the paper: model, column, measured, error, chance."""
    task = load_stored("giccs")
    columns = ["model", "column", "measured", "error", "chance"]
    accuracies = pd.DataFrame() if task is None else read_choices(context.storage, task)
    if accuracies.empty:
        return pd.DataFrame(columns=columns)
    sum_rows = accuracies[accuracies["score"] == "sum"]
    context_of = sum_rows["context"].map({True: "with", False: "without"})
    column = sum_rows["n_turns"].astype(str) + "-turn " + context_of + " context"
    named = sum_rows.assign(model=sum_rows["model"].str.rpartition("/")[2], column=column)
    return named.rename(columns={"accuracy": "measured"})[columns]


def similarity_and_clustering(context: Context) -> pd.DataFrame:
    """Correlate over models how well they compare pairs and how well they cluster.

    It is Spearman's rho over models between Spearman's rho on a pair task and the mean score of the best method on a
    clustering task, by the requested protocol. Tasks that fewer than three models share are left out.

    Returns
    -------
    DataFrame
        Columns pair_task, task, metric, models, rho, low, high, which and note.
    """
    protocol = context.protocols[context.protocol]
    tables = []
    for task in sorted({*CLUSTERED} & {*context.storage.list_scored_tasks()}):
        card = get_card(context.storage, task)
        if card is None:
            continue
        metric = protocol.main_metric or card.main_metric
        cells = context.cells([task], context.protocol)
        scores = context.storage.read_scores(cells, [metric]).merge(cells[["cell_id", "model", "method"]])
        best = scores.groupby(["model", "method"])["value"].mean().groupby("model").max()
        tables.append(best.rename("value").reset_index().assign(task=task, metric=metric))
    empty = pd.DataFrame(columns=["task", "metric", "model", "value"])
    grouped = pd.concat(tables, ignore_index=True) if tables else empty

    rows = []
    for name in PAIRS:
        scored = pair_scores(context, name)
        quality = scored.set_index("model")["spearman"] if len(scored) else pd.Series(dtype=np.float64)
        for (task, metric), task_scores in grouped.groupby(["task", "metric"], sort=True):
            both = pd.concat([quality, task_scores.set_index("model")["value"]], axis=1, join="inner").dropna()
            if len(both) < FEWEST:
                continue
            estimate = correlation("spearman", both.iloc[:, 0], both.iloc[:, 1])
            note = f"no interval: {estimate.n} models are too few for one" if np.isnan(estimate.low) else ""
            which = ", ".join(sorted(map(str, both.index)))
            rows.append((name, task, metric, estimate.n, estimate.value, estimate.low, estimate.high, which, note))
    columns = ["pair_task", "task", "metric", "models", "rho", "low", "high", "which", "note"]
    return pd.DataFrame(rows, columns=columns)
