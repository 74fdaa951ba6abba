"""Claims of the papers: a verdict follows from a table's rows by a rule that works in both directions."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from traube._reports.papers import papers
from traube._reports.papers.claims import (
    Claim,
    Evidence,
    Holds,
    MeasuredRows,
    combine,
    find_interval,
    format_percent,
    format_points,
    format_score,
    judge_size,
    judge_test,
    weaken,
)
from traube._reports.papers.results import _read

STORED = Path(__file__).parents[2] / "docs" / "results"
CLAIMS = [(name, claim) for name, paper in papers().items() for claim in paper.claims]
EVERY_CLAIM = pytest.mark.parametrize(("paper", "claim"), CLAIMS, ids=[f"{name}: {c.says}" for name, c in CLAIMS])


def give(**tables: pd.DataFrame | list[dict[str, Any]]) -> MeasuredRows:
    """Return what gives these tables, and empty ones for others."""
    return lambda name: pd.DataFrame(tables.get(name, []))


def judge(paper: str, words: str, rows: MeasuredRows) -> Evidence:
    """Judge the one claim of a paper with these words."""
    (claim,) = [claim for name, claim in CLAIMS if name == paper and words in claim.says]
    return claim.judge(rows)


def read_stored(paper: str) -> MeasuredRows:
    def read(name: str) -> pd.DataFrame:
        path = STORED / paper / f"{name}.csv"
        table = pd.read_csv(path) if path.is_file() else pd.DataFrame({"measured": []})
        return table[table["measured"].notna()]

    return read


@EVERY_CLAIM
def test_of_nothing_a_claim_is_not_tested_and_says_why(paper: str, claim: Claim) -> None:
    evidence = claim.judge(lambda name: pd.DataFrame())
    assert (evidence.holds, bool(evidence.measured)) == (Holds.UNTESTED, True)
    assert claim.judge(lambda name: pd.DataFrame({"task": [], "method": [], "measured": []})).holds is Holds.UNTESTED


@EVERY_CLAIM
def test_what_is_stored_is_evidence(paper: str, claim: Claim) -> None:
    evidence = claim.judge(read_stored(paper))
    assert evidence.measured and len(evidence.findings[0]) < 200  # stands on the first screen
    assert evidence.holds is Holds.UNTESTED or evidence.on
    assert "nan" not in f"{evidence.measured} {evidence.on}".split()


def test_every_paper_has_claims_that_fit_a_line() -> None:
    assert [name for name, paper in papers().items() if not paper.claims] == []
    assert [claim.says for _, claim in CLAIMS if len(claim.says.split()) > 18] == []


# rules


def make_tested_row(verdict: str, detectable: float) -> pd.Series:
    return pd.Series({"verdict": verdict, "p": 0.01 if verdict else 0.5, "detectable": detectable, "comparisons": 1})


def test_a_test_speaks_against_a_claim_only_if_it_could_have_seen_what_the_paper_reports() -> None:
    assert judge_test(make_tested_row("higher", detectable=0.1), "higher", 0.2, trainings=3) is Holds.HOLDS
    assert judge_test(make_tested_row("lower", detectable=0.1), "higher", 0.2, trainings=3) is Holds.FAILS
    assert judge_test(make_tested_row("", detectable=0.1), "higher", 0.2, trainings=3) is Holds.FAILS
    assert judge_test(make_tested_row("", detectable=0.3), "higher", 0.2, trainings=3) is Holds.UNTESTED
    assert judge_test(make_tested_row("higher", detectable=0.1), "higher", 0.2, trainings=1) is Holds.UNTESTED
    uncounted = make_tested_row("higher", detectable=0.1).drop("detectable")  # a p-value that counts no trainings
    assert judge_test(uncounted, "higher", 0.2, trainings=3) is Holds.UNTESTED


def test_a_smaller_gain_than_reported_holds_in_part() -> None:
    assert judge_size(0.1, 0.4, reported=0.3) is Holds.HOLDS
    assert judge_size(0.1, 0.2, reported=0.3) is Holds.PARTLY
    assert judge_size(-0.1, 0.2, reported=0.3) is Holds.FAILS
    assert judge_size(-0.1, 0.4, reported=0.3) is Holds.UNTESTED
    assert judge_size(*find_interval(0.3, math.nan, trainings=1), reported=0.3) is Holds.UNTESTED


def test_weak_evidence_moves_a_verdict_towards_not_tested() -> None:
    assert [weaken(holds) for holds in Holds] == [Holds.PARTLY, Holds.PARTLY, Holds.UNTESTED, Holds.UNTESTED]


def test_cases_that_are_not_tested_neither_refute_nor_complete_a_claim() -> None:
    assert combine([Holds.HOLDS, Holds.HOLDS]) is Holds.HOLDS
    assert combine([Holds.HOLDS, Holds.UNTESTED]) is Holds.PARTLY
    assert combine([Holds.HOLDS, Holds.FAILS]) is Holds.PARTLY
    assert combine([Holds.FAILS, Holds.UNTESTED]) is Holds.FAILS
    assert combine([]) is Holds.UNTESTED


def test_numbers_are_printed_as_in_journals() -> None:
    assert (format_points(-3.68), format_points(-0.01), format_percent(0.126)) == ("−3.7", "+0.0", "+13 %")
    assert (format_score(0.3744), format_score(-0.035), format_score(1.0, 2)) == (".374", "−.035", "1.00")


# a claim of each kind: it holds, it fails with the sign turned, and with one training it is not decided


def make_methods(*sets: dict[str, float]) -> pd.DataFrame:
    """Return rows of the scores of methods on some sets."""
    table = pd.DataFrame(sets).melt(var_name="method", value_name="measured", ignore_index=False)
    return table.assign(task=table.index.astype(str), note="mean of x, y; published: of twelve others")


def test_a_claim_about_signs_holds_if_all_data_sets_have_the_sign() -> None:
    def holds(*gains: float) -> Holds:
        sets = [{"none/minibatch_kmeans": 20.0, "umap/minibatch_kmeans": 20.0 + gain} for gain in gains]
        return judge("german", "UMAP improves", give(table_3=make_methods(*sets))).holds

    assert (holds(3.0, 3.0, 3.0), holds(-3.0, -3.0, -3.0)) == (Holds.HOLDS, Holds.FAILS)
    assert holds(3.0, 3.0, 3.0, -3.0) is Holds.PARTLY
    assert (holds(3.0, 3.0), holds(-3.0, -3.0)) == (Holds.PARTLY, Holds.UNTESTED)  # two of six sets


def test_pca_has_to_be_below_both_other_spaces() -> None:
    def holds(pca: float) -> Holds:
        scores = {"none/agglomerative": 20.0, "pca/agglomerative": pca, "umap/agglomerative": 25.0}
        return judge("german", "PCA", give(table_3=make_methods(scores, scores, scores))).holds

    assert (holds(15.0), holds(22.0)) == (Holds.HOLDS, Holds.FAILS)


def test_hdbscan_may_be_better_on_one_set_as_in_the_paper() -> None:
    def holds(*hdbscan: float) -> Holds:
        scores = {"umap/minibatch_kmeans": 20.0, "umap/agglomerative": 21.0, "umap/dbstream": 19.0}
        sets = [{**scores, "umap/hdbscan": worst} for worst in hdbscan]
        return judge("german", "HDBSCAN is the worst", give(table_3=make_methods(*sets))).holds

    assert (holds(*[9.0] * 5, 30.0), holds(*[30.0] * 6)) == (Holds.HOLDS, Holds.FAILS)
    assert holds(*[9.0] * 4, 30.0, 30.0) is Holds.PARTLY
    assert (holds(9.0, 9.0, 30.0), holds(30.0, 30.0, 30.0)) == (Holds.PARTLY, Holds.UNTESTED)  # half of the sets


def test_one_case_of_much_noise_is_some_case() -> None:
    def holds(*percents: float) -> Holds:
        rows = [
            {"model": "x", "task": str(i), "method": "umap/hdbscan", "measured": percent}
            for i, percent in enumerate(percents)
        ]
        return judge("german", "noise", give(noise=rows)).holds

    assert (holds(10.0, 20.0, 31.0), holds(10.0, 20.0, 29.0)) == (Holds.HOLDS, Holds.FAILS)
    assert holds(10.0) is Holds.UNTESTED  # of one set nothing is known of others


def test_whole_texts_are_above_titles_in_part_until_all_sources_are_measured() -> None:
    def holds(gain: float, *sources: str) -> Holds:
        titles = [{"model": "x", "task": f"{source}_s2s", "measured": 20.0} for source in sources]
        whole = [{"model": "x", "task": f"{source}_p2p", "measured": 20.0 + gain} for source in sources]
        return judge("german", "whole texts than", give(table_2=[*titles, *whole])).holds

    everything = ("blurbs", "tenkgnad", "reddit")
    assert (holds(5.0, *everything), holds(-5.0, *everything)) == (Holds.HOLDS, Holds.FAILS)
    assert (holds(5.0, "blurbs"), holds(-5.0, "blurbs")) == (Holds.PARTLY, Holds.UNTESTED)


@pytest.mark.parametrize(("method", "epochs", "words"), [("tsdae", 1.0, "TSDAE"), ("wwm", 10.0, "by 30 %")])
def test_a_gain_by_training_is_judged_by_its_interval(method: str, epochs: float, words: str) -> None:
    def holds(gain: float, *, model: str = "gbert_base", seeds: float = 3.0) -> Holds:
        which = {"model": model, "method": method, "epochs": epochs, "measured": 20.0 + gain, "difference": gain}
        tasks = ("blurbs_s2s", "tenkgnad_s2s", "reddit_s2s")
        rows = [{**which, "task": task, "sd": 0.1, "seeds": seeds} for task in tasks]
        return judge("german", words, give(table_5=rows)).holds

    assert (holds(6.2), holds(1.0), holds(-6.2)) == (Holds.HOLDS, Holds.PARTLY, Holds.FAILS)
    assert holds(6.2, seeds=1.0) is Holds.UNTESTED
    assert holds(6.2, model="minilm") is Holds.PARTLY  # the claim is about GBERT-base
    assert holds(-6.2, model="minilm") is Holds.UNTESTED


DETECTS: dict[str, Any] = {"p": 0.01, "comparisons": 5, "detectable": 0.01}


def make_cob(gain: float, task: str = "newsgroups", seeds: float = 3.0, **test: Any) -> list[dict[str, Any]]:
    """Return rows of COB and Triplet by ARI; COB is tested if test has columns."""
    which = {"task": task, "metric": "ari", "base": "x", "recipe": None, "sd": 0.01, "seeds": seeds}
    rival = {**which, "method": "triplet", "measured": 0.3, "verdict": "*"}
    return [{**which, "method": "cob", "measured": 0.3 + gain, "against": "triplet", **test}, rival]


def test_cob_has_to_beat_triplet_by_trainings() -> None:
    def holds(rows: list[dict[str, Any]]) -> Holds:
        return judge("cob", "20 Newsgroups: ARI", give(table_4=rows)).holds

    assert holds(make_cob(0.03, verdict="higher", **DETECTS)) is Holds.HOLDS
    assert holds(make_cob(-0.03, verdict="lower", **DETECTS)) is Holds.FAILS
    assert holds(make_cob(0.03, verdict="higher", seeds=1.0, **DETECTS)) is Holds.UNTESTED
    # an older p-value, which does not count trainings: the sign alone
    assert holds(make_cob(0.03, verdict="higher", p=1e-9, comparisons=5)) is Holds.PARTLY
    assert holds(make_cob(-0.03, verdict="lower", p=1e-9, comparisons=5)) is Holds.UNTESTED


def test_heads_alone_are_weak_evidence_and_do_not_stand_against_whole_encoders() -> None:
    def judge_heads(layers: int | None) -> Holds:
        cob, triplet = make_cob(0.03, layers=0, verdict="higher", **DETECTS)
        return judge("cob", "20 Newsgroups: ARI", give(table_4=[cob, {**triplet, "layers": layers}])).holds

    assert (judge_heads(0), judge_heads(None)) == (Holds.PARTLY, Holds.UNTESTED)


def test_each_pair_says_how_many_trainings_it_has() -> None:
    heads = [{**row, "layers": 0} for row in make_cob(0.03, seeds=10.0)]
    whole = [{**row, "layers": None} for row in make_cob(0.05, seeds=3.0)]
    parts = judge("cob", "20 Newsgroups: ARI", give(table_4=[*heads, *whole])).measured.split(" each)")
    assert [part.rpartition("; ")[2] for part in parts[:2]] == ["10 trainings", "3 trainings"]


def test_a_better_triplet_than_the_one_that_was_tested_is_reported() -> None:
    cob, triplet = make_cob(0.03, verdict="higher", **DETECTS)
    other = {**triplet, "recipe": "f0", "measured": 0.5}
    evidence = judge("cob", "20 Newsgroups: ARI", give(table_4=[cob, triplet, other]))
    assert evidence.holds is Holds.PARTLY
    assert "Triplet by another recipe: ARI .500" in evidence.measured
    other = {**cob, "recipe": "f0", "measured": 0.6, "layers": 0}
    better = judge("cob", "20 Newsgroups: ARI", give(table_4=[cob, triplet, other]))
    assert "COB by another recipe: ARI .600" in better.measured and "Triplet by another" not in better.measured


@pytest.mark.parametrize(("level", "words"), [("coarse", "top sections"), ("fine", "all levels")])
def test_the_public_sample_of_car_is_weak_evidence(level: str, words: str) -> None:
    def holds(task: str, verdict: str) -> Holds:
        gain = 0.03 if verdict == "higher" else -0.03
        rows = make_cob(gain, f"{task}_{level}", verdict=verdict, **DETECTS)
        return judge("cob", words, give(**{"table_6" if level == "coarse" else "table_7": rows})).holds

    assert (holds("trec_car", "higher"), holds("trec_car", "lower")) == (Holds.HOLDS, Holds.FAILS)
    assert (holds("car_test200", "higher"), holds("car_test200", "lower")) == (Holds.PARTLY, Holds.UNTESTED)


def test_what_is_not_trained_has_to_be_below_triplet() -> None:
    def holds(verdict: str, seeds: float = 3.0) -> Holds:
        which = {"task": "newsgroups", "metric": "ari", "sd": 0.01}
        test = {"verdict": verdict, "seeds": 1.0, **DETECTS}
        rows = [
            {**which, "method": "triplet", "base": "x", "measured": 0.3, "seeds": seeds},
            {**which, "method": "untrained", "base": "x", "measured": 0.1, **test},
            {**which, "method": "tfidf", "measured": 0.01, **test},
        ]
        return judge("cob", "Without supervision", give(table_4=rows)).holds

    assert (holds("lower"), holds("higher"), holds("lower", 1.0)) == (Holds.HOLDS, Holds.FAILS, Holds.UNTESTED)


@pytest.mark.parametrize(
    ("measure", "words", "enough"), [("times_slower", "converges", 6.0), ("epoch_times_slower", "epoch", 120.0)]
)
def test_times_hold_at_the_size_that_is_reported(measure: str, words: str, enough: float) -> None:
    def rate(times: float, seeds: float = 3.0, sd: float = 0.01, layers: int | None = None) -> Evidence:
        row = {"task": "newsgroups", "base": "x", "measure": measure, "measured": times, "sd": sd, "seeds": seeds}
        return judge("cob", words, give(convergence=[{**row, "layers": layers}]))

    verdicts = [rate(times).holds for times in (enough, 3.0, 0.5)]
    assert verdicts == [Holds.HOLDS, Holds.PARTLY, Holds.FAILS]
    head, whole = (rate(enough, layers=layers) for layers in (0, None))
    assert ("the head alone is trained" in head.measured, head.holds) == (True, Holds.PARTLY)
    assert ("the head alone is trained" in whole.measured, whole.holds) == (False, Holds.HOLDS)
    assert (rate(enough, seeds=1.0).holds, rate(3.0, sd=5.0).holds) == (Holds.UNTESTED, Holds.UNTESTED)
    # by the logarithm: of a ratio of 105 with a fifth of deviation, an interval to below 0 would say nothing
    assert rate(105.5, seeds=2.0, sd=21.9).holds is Holds.HOLDS


def make_aecl(gain: float, *, frozen: str = "", seeds: float = 3.0, **test: Any) -> list[dict[str, Any]]:
    """Return rows of AECL and k-means on all eight sets."""
    tasks = papers()["aecl"].tasks
    which = [{"task": task, "metric": m, "base": "x", "seeds": seeds} for task in tasks for m in ("acc", "nmi")]
    ours = [{**w, "method": f"AECL{frozen}", "measured": 50.0 + gain, **test} for w in which]
    return [*ours, *({**w, "method": "SBERT", "measured": 50.0, "verdict": "*"} for w in which)]


HIGHER: dict[str, Any] = {**DETECTS, "detectable": 1.0, "verdict": "higher"}
LOWER: dict[str, Any] = {**HIGHER, "verdict": "lower"}


def test_aecl_has_to_beat_kmeans_on_all_sets() -> None:
    def holds(rows: list[dict[str, Any]]) -> Holds:
        return judge("aecl", "k-means", give(table_2=rows)).holds

    assert (holds(make_aecl(5.0, **HIGHER)), holds(make_aecl(-5.0, **LOWER))) == (Holds.HOLDS, Holds.FAILS)
    assert holds(make_aecl(5.0, seeds=1.0, **HIGHER)) is Holds.UNTESTED
    assert holds(make_aecl(5.0)) is Holds.PARTLY  # no test
    # with the encoder frozen it is another method
    assert holds(make_aecl(5.0, frozen=", frozen encoder", **HIGHER)) is Holds.PARTLY
    frozen = make_aecl(-5.0, frozen=", frozen encoder", **LOWER)
    assert holds(frozen) is Holds.UNTESTED
    # trainings of the encoder come before a frozen one
    assert holds([*frozen, *make_aecl(5.0, **HIGHER)]) is Holds.HOLDS
    once = [row for row in make_aecl(5.0, seeds=1.0, **HIGHER) if row["method"] == "AECL"]
    assert holds([*frozen, *once]) is Holds.UNTESTED


def test_sets_on_which_aecl_is_below_kmeans_are_reported() -> None:
    rows = pd.DataFrame(make_aecl(5.0, **HIGHER))
    is_lost = (rows["task"] == "agnews") & (rows["metric"] == "nmi") & (rows["method"] == "AECL")
    rows.loc[is_lost, ["measured", "verdict"]] = [47.0, "lower"]
    evidence = judge("aecl", "k-means", give(table_2=rows))
    assert evidence.holds is Holds.PARTLY
    assert "agnews −3.0" in evidence.measured


def test_rivals_are_compared_without_a_test_and_others_are_reported() -> None:
    def rate(rival: float, seeds: float = 3.0) -> Evidence:
        which = {"task": "tweet", "metric": "acc", "base": "x", "seeds": seeds}
        scores = {"AECL": 70.0, "SCCL": rival, "SBERT": 60.0, "GSDMM": 79.0}
        rows = [{**which, "method": method, "measured": score} for method, score in scores.items()]
        return judge("aecl", "earlier results", give(table_2=rows))

    assert (rate(65.0).holds, rate(75.0).holds) == (Holds.PARTLY, Holds.UNTESTED)
    assert rate(65.0, seeds=1.0).holds is Holds.UNTESTED
    assert "tweet 70.0 (+5.0 beside SCCL, 3 trainings)" in rate(65.0).measured
    assert "tweet 70.0 (+10.0 beside SBERT)" in rate(55.0).measured
    assert "GSDMM, which finds the number of clusters, higher on 1 of 1 sets" in rate(65.0).measured


@pytest.mark.parametrize(
    ("table", "words", "without"),
    [
        ("table_3", "equation 7", "No IC"),
        ("table_4", "Stage 1", "No Stage 1"),
        ("table_4", "Stage 2", "No Stage 2"),
        ("table_5", "crucial", "No PG"),
        ("table_5", "entropy", "No RC"),
    ],
)
def test_a_part_is_needed_if_scores_are_lower_without_it(table: str, words: str, without: str) -> None:
    def holds(loss: float, frozen: str = "", seeds: float = 3.0, **test: Any) -> Holds:
        tasks = ("searchsnippets", "stackoverflow")
        which = [{"task": task, "metric": m, "base": "x", "seeds": seeds} for task in tasks for m in ("acc", "nmi")]
        rows = [{**w, "method": f"AECL{frozen}", "measured": 80.0, "verdict": "*"} for w in which]
        rows += [{**w, "method": f"{without}{frozen}", "measured": 80.0 - loss, **test} for w in which]
        return judge("aecl", words, give(**{table: rows})).holds

    assert (holds(5.0, **LOWER), holds(-5.0, **HIGHER)) == (Holds.HOLDS, Holds.FAILS)
    assert holds(5.0, seeds=1.0, **LOWER) is Holds.UNTESTED
    assert (holds(5.0), holds(-5.0)) == (Holds.PARTLY, Holds.UNTESTED)  # no test
    assert holds(5.0, ", frozen encoder", **LOWER) is Holds.PARTLY
    assert holds(-5.0, ", frozen encoder", **HIGHER) is Holds.UNTESTED


def test_attention_is_near_zero_or_at_least_lower_than_without_equation_7() -> None:
    def holds(ns: float, seeds: float = 3.0, frozen: str = "", metric: str = "ns_contrast_alone") -> Holds:
        rows = [
            {"task": task, "method": f"{method}{frozen}", "metric": metric, "measured": value, "seeds": seeds}
            for task in papers()["aecl"].tasks
            for method, value in (("AECL", ns), ("No IC", 0.9))
        ]
        return judge("aecl", "attention", give(similarity=rows)).holds

    assert (holds(0.05), holds(0.3), holds(0.95)) == (Holds.HOLDS, Holds.PARTLY, Holds.FAILS)
    assert holds(0.05, seeds=1.0) is Holds.UNTESTED
    assert holds(0.05, frozen=", frozen encoder") is Holds.PARTLY
    assert holds(0.05, metric="ns") is Holds.UNTESTED  # after other losses too


def make_qs3m(auc: float, ari: float, verdict: str, **others: tuple[float, str]) -> list[dict[str, Any]]:
    """Return rows of QS3M, and of others, beside SBERT with AUC .6 and ARI .2."""
    scores = {"auc_all": (0.6, auc), "ari": (0.2, ari)}
    rows: list[dict[str, Any]] = []
    for metric, (before, score) in scores.items():
        which = {"task": "t_flat", "metric": metric, "base": "x", "recipe": None, "p": 0.01, "comparisons": 3}
        which |= {"trained_on": "t_flat", "detectable": 0.01}
        rows.append(
            {**which, "method": "QS3M-Title", "measured": score, "difference": score - before, "verdict": verdict}
        )
        rows += [{**which, "method": name, "measured": v, "verdict": test} for name, (v, test) in others.items()]
    return rows


def test_qs3m_has_to_be_significantly_above_sbert() -> None:
    def holds(rows: list[dict[str, Any]]) -> Holds:
        return judge("qs3m", "12 %", give(table_2=rows)).holds

    assert holds(make_qs3m(0.7, 0.3, "higher")) is Holds.HOLDS
    assert holds(make_qs3m(0.5, 0.1, "lower")) is Holds.FAILS
    sample = {"task": "car_test200_flat", "trained_on": "car_test200_flat"}
    assert holds([{**row, **sample} for row in make_qs3m(0.7, 0.3, "higher")]) is Holds.PARTLY
    alike = make_qs3m(0.61, 0.21, "")
    assert holds([{**row, "detectable": 0.5} for row in alike]) is Holds.UNTESTED
    # where the table does not say what its test can find, no difference is no evidence
    assert holds([{k: v for k, v in row.items() if k != "detectable"} for row in alike]) is Holds.UNTESTED


def test_a_query_helps_if_folds_say_so() -> None:
    def holds(verdict: str, detectable: float = 0.002) -> Holds:
        row = {"task": "t_flat", "trained_on": "t_flat", "metric": "ari", "method": "QS3M-Title", "base": "x"}
        test = {"measured": 0.3, "without": 0.29, "p": 0.01, "comparisons": 1, "detectable": detectable}
        return judge("qs3m", "query improves", give(query=[{**row, **test, "verdict": verdict}])).holds

    assert (holds("higher"), holds("lower"), holds("")) == (Holds.HOLDS, Holds.FAILS, Holds.FAILS)
    assert holds("", detectable=0.03) is Holds.UNTESTED  # five folds cannot see what the paper reports


def test_words_are_below_if_tests_on_either_side_of_sbert_say_so() -> None:
    def holds(verdict: str, words: float, test: str, **more: Any) -> Holds:
        rows = [{**row, **more} for row in make_qs3m(0.7, 0.3, verdict, **{"TFIDF cosine": (words, test)})]
        return judge("qs3m", "TF-IDF", give(table_2=rows)).holds

    assert (holds("higher", 0.1, "lower"), holds("lower", 0.9, "higher")) == (Holds.HOLDS, Holds.FAILS)
    # signs without a test of the two are weaker evidence
    blind = {"detectable": 9.0}
    assert (holds("", 0.1, "", **blind), holds("", 0.9, "", **blind)) == (Holds.PARTLY, Holds.UNTESTED)
    # and where a test says that nothing of that size is there, they say nothing
    assert holds("higher", 0.1, "") is Holds.UNTESTED


def test_clusters_follow_pairs_if_the_interval_of_their_correlation_says_so() -> None:
    def holds(sign: int, task: str = "trec_car_flat") -> Holds:
        ways = [(0.5 + i / 100, 0.3 + sign * i / 100) for i in range(12)]
        rows = [
            {"task": task, "method": f"way {i}", "base": "", "metric": metric, "measured": value}
            for i, way in enumerate(ways)
            for metric, value in zip(("auc_all", "ari"), way, strict=True)
        ]
        table = pd.DataFrame(rows).assign(recipe=None, trained_on=None)
        return judge("qs3m", "pairwise", give(table_2=table)).holds

    assert (holds(1), holds(-1)) == (Holds.HOLDS, Holds.FAILS)
    assert (holds(1, "car_test200_flat"), holds(-1, "car_test200_flat")) == (Holds.PARTLY, Holds.UNTESTED)


def test_abstracts_are_compared_without_a_test_for_each_recipe() -> None:
    def holds(*scores: float) -> Holds:
        which = [{"fold": fold, "base": "x", "note": ""} for fold in (1, 2)]
        rows = [{**w, "method": "SBERT cosine", "measured": 0.6} for w in which]
        rows += [
            {**w, "method": "QS3M-Title", "recipe": str(i), "measured": score}
            for w in which
            for i, score in enumerate(scores)
        ]
        return judge("qs3m", "arXiv", give(table_4=rows)).holds

    assert (holds(0.7), holds(0.7, 0.5), holds(0.5)) == (Holds.PARTLY, Holds.PARTLY, Holds.UNTESTED)


def test_the_papers_recipe_is_known_by_its_digest() -> None:
    evidence = judge("qs3m", "arXiv", lambda name: _read(STORED / "qs3m" / f"{name}.csv").dropna(subset="measured"))
    assert "the paper's recipe: .660 and .662 against" in evidence.measured


def test_people_agree_if_halves_and_alpha_do() -> None:
    def holds(half: float, alpha: float) -> Holds:
        halves = [{"source": "a", "measured": half}]
        alphas = [{"source": "a", "measure": "alpha", "measured": alpha}]
        return judge("giccs", "reliable", give(table_3=halves, table_1=alphas)).holds

    assert (holds(0.95, 0.7), holds(0.95, 0.2), holds(0.5, 0.2)) == (Holds.HOLDS, Holds.PARTLY, Holds.FAILS)


def test_sentence_encoders_are_above_german_ones_by_intervals() -> None:
    def holds(sentence: float, german: float, margin: float = 0.01) -> Holds:
        scores = {"paraphrase-xlm-r-multilingual-v1": sentence, "deepset/gbert-large": german}
        rows = [
            {"model": model, "metric": "spearman", "measured": v, "low": v - margin, "high": v + margin}
            for model, v in scores.items()
        ]
        return judge("giccs", "encoders", give(table_5=rows)).holds

    assert (holds(0.8, 0.6), holds(0.6, 0.8)) == (Holds.HOLDS, Holds.FAILS)
    assert (holds(0.8, 0.6, 0.2), holds(0.6, 0.8, 0.2)) == (Holds.PARTLY, Holds.UNTESTED)


def test_a_model_chooses_by_chance_unless_it_is_above_by_its_error() -> None:
    def holds(accuracy: float, model: str = "mGPT") -> Holds:
        row = {"model": model, "column": "3-turn with context", "measured": accuracy, "error": 0.05}
        return judge("giccs", "mGPT", give(table_6=[row])).holds

    assert (holds(0.1), holds(0.25), holds(0.5)) == (Holds.HOLDS, Holds.HOLDS, Holds.FAILS)
    assert (holds(0.1, "another"), holds(0.5, "another")) == (Holds.PARTLY, Holds.UNTESTED)
