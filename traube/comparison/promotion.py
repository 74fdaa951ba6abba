"""Decide whether a challenger becomes the champion of its task, and say why."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal

from traube._core.errors import join_words
from traube._pipeline.params import Promotion
from traube._storage import Storage
from traube.comparison.candidates import Candidate
from traube.comparison.standings import compare_candidates
from traube.comparison.verdict import Verdict

Outcome = Literal["first", "promote", "keep", "hold"]


class Why(Enum):
    """Reason for which a challenger is promoted or not; of several objections, the first that is listed here counts."""

    NO_CHAMPION = auto()
    CHAMPION_ELSEWHERE = auto()
    NOT_ALL_SCORED = auto()
    BETTER = auto()
    NOT_APPROVED = auto()
    TOO_LITTLE = auto()
    NOT_SIGNIFICANT = auto()
    WORSE_ELSEWHERE = auto()
    UNDECIDED = auto()
    CHAMPION_UNSCORED = auto()
    UNSCORED_ELSEWHERE = auto()
    LOSS_NOT_RULED_OUT = auto()


@dataclass(frozen=True)
class Decision:
    """Outcome for a task's challenger, and the reason."""

    task: str
    why: Why
    rules: Promotion
    challenger: Candidate
    champion: Candidate | None = None
    verdict: Verdict | None = None  # on the challenger (a) against the champion (b)
    # the task of the family that speaks against a promotion, with the verdict there
    elsewhere: tuple[str, Verdict | None] | None = None
    awaited: Sequence[str] = ()  # models of the benchmark without scores, before the first champion is chosen

    @property
    def outcome(self) -> Outcome:
        """`first` (there was no champion), `promote`, `keep` (the champion stays) or `hold` (not decided yet)."""
        if self.why in (Why.NO_CHAMPION, Why.CHAMPION_ELSEWHERE):
            return "first"
        if self.why is Why.BETTER:
            return "promote"
        return "keep" if self.why in (Why.TOO_LITTLE, Why.NOT_SIGNIFICANT, Why.WORSE_ELSEWHERE) else "hold"

    @property
    def reason(self) -> str:
        """The reason, in a sentence."""
        if self.why is Why.NO_CHAMPION:
            return "there was no champion"
        if self.why is Why.CHAMPION_ELSEWHERE:
            return "it was the champion where these results come from"
        if self.why is Why.NOT_ALL_SCORED:
            return (
                f"the first champion is chosen when {join_words(self.awaited)} are scored too, or when the night ends"
            )
        if self.why is Why.CHAMPION_UNSCORED or self.verdict is None:
            return "the champion has no score on the present data: evaluate it, or `traube promote` another one"
        if self.why is Why.UNDECIDED:
            return f"{self.verdict.answer}; {advise_more_seeds(self.challenger.protocol)}"
        if self.why is Why.TOO_LITTLE and self.verdict.difference <= 0:
            return f"{self._evidence}: {'worse' if self.verdict.better == 'b' else 'no better'} than the champion"
        if self.why is Why.TOO_LITTLE:
            return f"{self._evidence}: less than {100 * self.rules.minimum_effect:g} points better"
        if self.why is Why.NOT_APPROVED:
            return f"{self._evidence}: better; a person approves it by `traube promote {self.task}`"
        if self.why is Why.NOT_SIGNIFICANT:
            return f"{self._evidence}: not significant at {self.rules.level:g}"
        if self.elsewhere is None:
            return self._evidence
        return f"{self._evidence}; but {self._explain_objection(*self.elsewhere)}"

    @property
    def _evidence(self) -> str:
        return f"{self.verdict.evidence}, {self.verdict.significance}" if self.verdict else ""

    def _explain_objection(self, task: str, verdict: Verdict | None) -> str:
        if verdict is None:
            return f"it has no score on {task} yet"
        points = 100 * verdict.difference
        if self.why is Why.WORSE_ELSEWHERE:
            return f"on {task} it loses {-points:.2f} points ({verdict.significance})"
        margin = 100 * self.rules.margin
        loss = f"on {task} a loss of more than {margin:g} point{'' if margin == 1 else 's'} cannot be ruled out"
        if verdict.undecided:
            return f"{loss}: {verdict.undecided.value}"
        bound = 100 * verdict.at_least(self.rules.level)
        return f"{loss}: {points:+.2f} points, at least {bound:+.2f}; more seeds or splits would tell"


@dataclass(frozen=True)
class Contest:
    """The two sides that are compared for a task."""

    challenger: Candidate | None  # the best newcomer that can be served
    champion: Candidate | Literal["unscored"] | None  # "unscored" on the present data; None if there is none
    newcomers: int = 1  # number of newcomers, of which the challenger is the best
    is_known: bool = False  # whether the challenger was the champion in the registry of these results


def choose_sides(
    options: Sequence[Candidate],
    weights: Mapping[tuple[str, str, str], str],
    held: Mapping[str, str] | None,
    rejected: Sequence[Mapping[str, str]],
    known: tuple[str, str] | None = None,
) -> Contest:
    """Choose who challenges the champion of a task.

    Newcomers are the candidates that can be served, are not the champion and were not rolled back. Where some are scored
    by the champion's method, the choice is among these: the model is compared, and the choice is among few.

    Parameters
    ----------
    options : sequence of Candidate
        The best first.
    weights : mapping of tuple to str
        Fingerprints of the models that can be served, by the keys of candidates: a candidate's own also hashes the
        corpus where the model was fitted to it.
    held : mapping of str to str or None
        Tags of the champion's version; None where there is no champion.
    rejected : sequence of mapping of str to str
        Tags of versions that people rolled back.
    known : tuple of str, optional
        Model and method of the champion that the results came with, for a registry that has none.
    """

    def is_of(version: Mapping[str, str], candidate: Candidate) -> bool:
        candidate_weights = weights.get(candidate.key, "")
        same = version["fingerprint"] == candidate.fingerprint or version.get("weights") == candidate_weights
        return same and (version["model"], version["method"]) == (candidate.model, candidate.method)

    scored = next((c for c in options if held and is_of(held, c)), None)
    out = [held, *rejected] if held else []
    new = [c for c in options if c.key in weights and not any(is_of(version, c) for version in out)]
    pool = [c for c in new if held and c.method == held.get("method")] or new
    if not held and (again := next((c for c in new if (c.model, c.method) == known), None)):
        return Contest(again, None, is_known=True)
    champion: Candidate | Literal["unscored"] | None = "unscored" if held else None
    return Contest(next(iter(pool), None), scored or champion, len(pool))


def advise_more_seeds(protocol: str) -> str:
    """Return the advice to run more seeds, where one seed does not decide."""
    return f"give protocol '{protocol}' more seeds in params.yaml, such as [42, 1, 2], and run again"


def judge(
    storage: Storage,
    families: Mapping[str, str],
    options: Mapping[str, Sequence[Candidate]],
    contests: Mapping[str, Contest],
    rules: Promotion,
    awaited: Mapping[str, Sequence[str]] | None = None,
) -> list[Decision]:
    """Decide which challengers become champions.

    A challenger is promoted if it is better than the champion by a paired test, by at least
    `minimum_effect`, and is shown not to be worse by more than `margin` on every other task of the
    family: there, the one-sided lower bound of the difference (at `level`) must stand above minus
    the margin. Where it does not, because the data say too little, the challenger is held.

    The challenger is the best of several newcomers, chosen on the splits it is tested on. So the
    family of comparisons are the newcomers of all tasks that have a champion to beat.

    Parameters
    ----------
    families : mapping of str to str
        The family of each task of the benchmark.
    options : mapping of str to sequence of Candidate
        All candidates by task.
    contests : mapping of str to Contest
        By task.
    awaited : mapping of str to sequence of str, optional
        Models that are to be scored, by task, before its first champion is chosen: whoever is done first is not the best.
    """
    comparisons = sum(c.newcomers for c in contests.values() if c.challenger and isinstance(c.champion, Candidate))
    decisions, better = [], Why.NOT_APPROVED if rules.approval else Why.BETTER
    for task, contest in sorted(contests.items()):
        challenger, champion = contest.challenger, contest.champion
        if not challenger:
            continue
        if not isinstance(champion, Candidate):
            missing = (awaited or {}).get(task, ())
            why = Why.CHAMPION_UNSCORED if champion else Why.NOT_ALL_SCORED if missing else Why.NO_CHAMPION
            why = Why.CHAMPION_ELSEWHERE if contest.is_known else why
            decisions.append(Decision(task, why, rules, challenger, awaited=missing))
            continue
        verdict = compare_candidates(storage, challenger, champion, comparisons, rules.level)
        objection = None
        if verdict.undecided:
            why = Why.UNDECIDED
        elif verdict.difference < rules.minimum_effect:
            why = Why.TOO_LITTLE
        elif verdict.better != "a":
            why = Why.NOT_SIGNIFICANT
        else:
            others = [name for name, family in families.items() if family == families[task] and name != task]
            objections = _find_objections(
                storage, challenger, champion, {name: options[name] for name in others}, rules
            )
            why, objection = min(objections, key=lambda pair: pair[0].value, default=(better, None))
        decisions.append(Decision(task, why, rules, challenger, champion, verdict, objection))
    return decisions


def _find_objections(
    storage: Storage,
    challenger: Candidate,
    champion: Candidate,
    elsewhere: Mapping[str, Sequence[Candidate]],
    rules: Promotion,
) -> Iterator[tuple[Why, tuple[str, Verdict | None]]]:
    """Yield the tasks on which it is not shown that the challenger is no worse than the champion."""
    for task, options in elsewhere.items():
        new, old = (next(filter(side.is_same, options), None) for side in (challenger, champion))
        if old is None:
            continue  # the champion has no score there that could be lost
        if new is None:
            yield Why.UNSCORED_ELSEWHERE, (task, None)
            continue
        verdict = compare_candidates(storage, new, old, level=rules.level)
        if verdict.undecided:
            yield Why.LOSS_NOT_RULED_OUT, (task, verdict)
        elif verdict.at_least(rules.level) <= -rules.margin:
            yield Why.WORSE_ELSEWHERE if verdict.high < -rules.margin else Why.LOSS_NOT_RULED_OUT, (task, verdict)
