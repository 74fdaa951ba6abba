"""A hand-written sample that looks like GiCCS and is none of it: eight German dialogues of four domains, of three and
five turns, each with five candidates, from a paraphrase of the last turn to an utterance that has nothing to do with it.

Nobody judged it. Its judgments are simulated: each of five annotators sees a candidate's design value (1, .75, .5, .25,
0) plus normal noise of standard deviation 0.15, drawn again for each judgment, and names the largest and the smallest
of each of the ten triples. Numbers measured on it say that the code works, and nothing about GiCCS or any model.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from traube.papers.giccs.agreement import Judgments, counting_scores
from traube.papers.giccs.best_worst import ITEM, Tuple, draw_tuples
from traube.tasks.splitting import make_rng

SOURCE = "hand-written sample, simulated judgments"
DESIGN_VALUES = (1.0, 0.75, 0.5, 0.25, 0.0)
NOISE = 0.15
ANNOTATORS = 5


@dataclass(frozen=True)
class Dialogue:
    """Turns, the last one first judged; candidates from the most to the least similar."""

    name: str
    domain: str
    turns: tuple[str, ...]
    candidates: tuple[str, ...]


DIALOGUES = (
    Dialogue(
        "d1",
        "find_restaurant",
        ("Wie kann ich helfen?", "Ich suche ein Lokal für heute Abend.", "Soll es italienische Küche sein?"),
        (
            "Möchten Sie italienisch essen gehen?",
            "Darf es ein kleiner Italiener sein?",
            "Soll es chinesische Küche sein?",
            "Kochen Sie gern italienisch?",
            "Der Zug fährt um neun Uhr ab.",
        ),
    ),
    Dialogue(
        "d2",
        "find_restaurant",
        (
            "Guten Tag, wohin möchten Sie?",
            "In ein Restaurant mit Garten.",
            "Für wie viele Personen?",
            "Für vier.",
            "Ich habe einen Tisch im Garten für vier Personen gefunden.",
        ),
        (
            "Es gibt einen Tisch für vier Personen im Garten.",
            "Draußen ist ein schöner Tisch für vier frei.",
            "Ich habe einen Tisch im Keller für zwei Personen gefunden.",
            "Im Garten steht ein alter Tisch.",
            "Morgen wird es regnen.",
        ),
    ),
    Dialogue(
        "d3",
        "find_cinema",
        ("Was läuft heute im Kino?", "Drei Filme, ein Krimi ist dabei.", "Wann beginnt der Krimi?"),
        (
            "Um wie viel Uhr fängt der Krimi an?",
            "Wann startet der Krimi heute Abend?",
            "Wann endet der Krimi?",
            "Wer hat den Krimi gedreht?",
            "Ich brauche ein Hotelzimmer.",
        ),
    ),
    Dialogue(
        "d4",
        "find_cinema",
        (
            "Ich möchte ins Kino gehen.",
            "In welcher Stadt?",
            "In Heidelberg.",
            "Es gibt zwei Kinos in der Altstadt.",
            "Reservieren Sie mir bitte zwei Karten für den Film um acht.",
        ),
        (
            "Bitte zwei Karten für den Film um acht Uhr reservieren.",
            "Ich hätte gern zwei Plätze für die Vorstellung um acht.",
            "Reservieren Sie mir bitte fünf Karten für den Film um sechs.",
            "Die Karten für das Museum kosten acht Euro.",
            "Mein Fahrrad ist kaputt.",
        ),
    ),
    Dialogue(
        "d5",
        "find_hotel",
        ("Wo kann man hier übernachten?", "Am Bahnhof gibt es zwei Hotels.", "Hat eines davon ein Schwimmbad?"),
        (
            "Gibt es in einem der Hotels ein Schwimmbad?",
            "Kann man in einem der beiden Hotels schwimmen?",
            "Hat eines davon eine Sauna?",
            "Das Schwimmbad am Bahnhof ist geschlossen.",
            "Spielen Sie das Lied noch einmal.",
        ),
    ),
    Dialogue(
        "d6",
        "find_hotel",
        (
            "Ich brauche ein Zimmer.",
            "Für welche Nacht?",
            "Für Freitag.",
            "Ein Einzelzimmer?",
            "Nein, ein Doppelzimmer mit Frühstück.",
        ),
        (
            "Nein, ich möchte ein Zimmer für zwei mit Frühstück.",
            "Ein Doppelzimmer, und Frühstück bitte dazu.",
            "Ja, ein Einzelzimmer ohne Frühstück.",
            "Das Frühstück gibt es ab sieben Uhr.",
            "Welcher Sender zeigt das Spiel?",
        ),
    ),
    Dialogue(
        "d7",
        "find_navigation",
        ("Wohin soll es gehen?", "Zum Schloss.", "Wie komme ich zu Fuß dorthin?"),
        (
            "Wie erreiche ich das Schloss zu Fuß?",
            "Welchen Weg nehme ich, wenn ich laufe?",
            "Wie komme ich mit dem Bus dorthin?",
            "Wann wurde das Schloss gebaut?",
            "Ich esse kein Fleisch.",
        ),
    ),
    Dialogue(
        "d8",
        "find_navigation",
        (
            "Ich habe mich verlaufen.",
            "Wo sind Sie gerade?",
            "An der alten Brücke.",
            "Und wohin möchten Sie?",
            "Ich muss so schnell wie möglich zum Bahnhof.",
        ),
        (
            "Ich will auf dem schnellsten Weg zum Bahnhof.",
            "Zum Bahnhof bitte, ich habe es eilig.",
            "Ich muss morgen zum Flughafen.",
            "Am Bahnhof gibt es einen Blumenladen.",
            "Der Film hat mir gefallen.",
        ),
    ),
)


def items() -> dict[str, float]:
    """Ids of all candidates, and their design values."""
    return {f"{d.name}{c}": value for d in DIALOGUES for c, value in zip("abcde", DESIGN_VALUES, strict=True)}


def tuples() -> list[Tuple]:
    """All ten triples of each dialogue."""
    return [one for d in DIALOGUES for one in draw_tuples([f"{d.name}{c}" for c in "abcde"], 3)]


def simulate_judgments(truth: dict[str, float], tuples: Iterable[Tuple], annotators: int, noise: float) -> pd.DataFrame:
    """Judgments of tuples: annotator, item_1 ... item_m, best, worst.

    An annotator sees each item's true value plus normal noise of a standard deviation, drawn again for each judgment, and
    names the largest and the smallest.
    """
    rng = make_rng(f"simulated {annotators} {noise}")
    rows = []
    for annotator in range(1, annotators + 1):
        for one in tuples:
            seen = np.array([truth[item] for item in one]) + rng.normal(0, noise, len(one))
            rows.append((f"simulated_{annotator}", *one, one[int(seen.argmax())], one[int(seen.argmin())]))
    names = [f"{ITEM}{i}" for i in range(1, len(rows[0]) - 2)]
    return pd.DataFrame(rows, columns=["annotator", *names, "best", "worst"])


def judgments(noise: float = NOISE) -> pd.DataFrame:
    """Simulated judgments, by the model of noise above."""
    return simulate_judgments(items(), tuples(), ANNOTATORS, noise)


def rows(noise: float = NOISE) -> list[dict[str, object]]:
    """The sample in the columns that the reader of GiCCS expects."""
    judged = judgments(noise)
    names = [name for name in judged if name.startswith("item_")]
    own = Judgments.of(judged[names].to_numpy(), judged["best"], judged["worst"], judged["annotator"])
    score = dict(zip(own.items, counting_scores(own), strict=True))
    return [
        {
            "dialogue": "\n".join(d.turns),
            "utterance": candidate,
            "score": score[f"{d.name}{letter}"],
            "domain": d.domain,
            "source": SOURCE,
        }
        for d in DIALOGUES
        for letter, candidate in zip("abcde", d.candidates, strict=True)
    ]


def write(raw: Path) -> Path:
    """Write the sample to where GiCCS is read from."""
    path = raw / "giccs" / "giccs.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows()), encoding="utf-8")
    return path
