"""Claims of the paper, and the rules by which they are judged: not tested until its pairs, its judgments and a language model are here."""

from traube._reports.papers.claims import (
    NO_TEST,
    Claim,
    Evidence,
    Holds,
    MeasuredRows,
    format_score,
    leave_untested,
    select,
    weaken,
)

NO_DATA = "the paper's 300 pairs are not at hand"
RELIABLE, AGREED = 0.9, 0.6  # split-half correlation; the lowest printed alpha is .63
SENTENCE_ENCODERS = (
    "distiluse-base-multilingual-cased-v2",
    "paraphrase-xlm-r-multilingual-v1",
    "paraphrase-multilingual-MiniLM-L12-v2",
    "paraphrase-multilingual-mpnet-base-v2",
    "distilbert-multilingual-nli-stsb-quora-ranking",
)
GERMAN = ("deepset/gbert-large", "deepset/gbert-large-sts")
MODEL = "mGPT"
CHANCE = 0.2


def judge_reliability(rows: MeasuredRows) -> Evidence:
    """Judge whether split-half correlation and alpha are high in every source."""
    halves, alphas = rows("table_3"), select(rows("table_1"), measure="alpha")
    if halves.empty or alphas.empty:
        return leave_untested(f"{NO_DATA}: no judgments here")
    is_reliable, is_agreed = halves["measured"].min() >= RELIABLE, alphas["measured"].min() >= AGREED
    holds = Holds.HOLDS if is_reliable and is_agreed else Holds.PARTLY if is_reliable or is_agreed else Holds.FAILS
    ranges = [f"{format_score(t['measured'].min())} to {format_score(t['measured'].max())}" for t in (halves, alphas)]
    return Evidence(holds, [f"split-half {ranges[0]}, alpha {ranges[1]}", NO_TEST], ", ".join(halves["source"]))


def judge_encoders(rows: MeasuredRows) -> Evidence:
    """Judge by intervals whether the paper's sentence encoders are all above both German encoders."""
    table = select(rows("table_5"), metric="spearman")
    german = select(table, model=GERMAN)
    others = select(table, model=SENTENCE_ENCODERS)
    if german.empty or others.empty:
        instead = select(rows("stsb_de"), metric="spearman")
        on = "the German STS benchmark instead: " if len(instead) else ""
        scores = [
            f"{row.model} {format_score(row.measured, 2)} [{format_score(row.low, 2)}, {format_score(row.high, 2)}]"
            for row in instead.itertuples()
        ]
        return leave_untested(NO_DATA, on + ", ".join(scores))
    if others["low"].min() > german["high"].max():
        holds = Holds.HOLDS
    elif others["high"].max() < german["low"].min():
        holds = Holds.FAILS
    else:  # intervals overlap
        holds = Holds.PARTLY if others["measured"].min() > german["measured"].max() else Holds.UNTESTED
    ranges = [f"{format_score(t['measured'].min())} to {format_score(t['measured'].max())}" for t in (others, german)]
    return Evidence(holds, [f"Spearman's rho {ranges[0]} against {ranges[1]}"], ", ".join(table["model"]))


def judge_choices(rows: MeasuredRows) -> Evidence:
    """Judge whether accuracies are at chance or below: within two standard errors, or lower."""
    table = rows("table_6")
    of_model = select(table, model=MODEL)
    table = of_model if len(of_model) else table
    if table.empty:
        return leave_untested(f"{NO_DATA}: no language model chose among their utterances here")
    above = table["measured"] - 2 * table["error"] > CHANCE
    holds = Holds.FAILS if above.all() else Holds.PARTLY if above.any() else Holds.HOLDS
    if of_model.empty:  # another language model is weak evidence of the paper's
        holds = weaken(holds)
    findings = [
        f"accuracy {format_score(table['measured'].min())} to {format_score(table['measured'].max())}, chance "
        f"{format_score(CHANCE, 1)}",
        f"above it by two standard errors in {above.sum()} of {len(table)} cases",
    ]
    return Evidence(holds, findings, ", ".join(table["model"].unique()))


CLAIMS = (
    Claim(
        "Best-worst scores are reliable: split-half correlation .946 to .975; Krippendorff's alpha .74",
        "3.3, 4.2, tables 1 and 3",
        judge_reliability,
    ),
    Claim(
        "Sentence encoders correlate best with people (rho .81 to .86; GBERT .68)",
        "5.1.1, table 5",
        judge_encoders,
    ),
    Claim(
        "mGPT chooses the most similar utterance in .07 to .17 of cases (chance .2)",
        "5.1.2, table 6",
        judge_choices,
    ),
)
