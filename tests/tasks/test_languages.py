"""The languages of texts are stated where the texts suffice to tell, and not where they do not."""

import json
from pathlib import Path

import pytest

from traube.tasks import languages
from traube.tasks.languages import NAMES, detect_languages

SENTENCES = {
    "en": ["The committee met on Tuesday to discuss the budget", "Nobody knew where the old library had been"],
    "de": ["Der Ausschuss sprach am Dienstag über den Haushalt", "Niemand wusste, wo die alte Bücherei gewesen war"],
    "fr": ["Le comité a discuté mardi du budget de la ville", "Personne ne savait où était la vieille bibliothèque"],
    "es": [
        "El comité discutió el martes el presupuesto de la ciudad",
        "Nadie sabía dónde estaba la antigua biblioteca",
    ],
    "it": [
        "Il comitato ha discusso martedì il bilancio della città",
        "Nessuno sapeva dove fosse la vecchia biblioteca",
    ],
    "nl": [
        "De commissie besprak dinsdag de begroting van de stad",
        "Niemand wist waar de oude bibliotheek was geweest",
    ],
    "pl": ["Komitet omówił we wtorek budżet miasta", "Nikt nie wiedział, gdzie była stara biblioteka"],
    "no": ["Komiteen drøftet byens budsjett på tirsdag", "Ingen visste hvor det gamle biblioteket hadde vært"],
    "tr": ["Komite salı günü şehrin bütçesini görüştü", "Kimse eski kütüphanenin nerede olduğunu bilmiyordu"],
    "ru": ["Комитет обсудил во вторник бюджет города", "Никто не знал, где была старая библиотека"],
    "el": ["Η επιτροπή συζήτησε την Τρίτη τον προϋπολογισμό", "Κανείς δεν ήξερε πού ήταν η παλιά βιβλιοθήκη"],
    "hi": ["समिति ने मंगलवार को शहर के बजट पर चर्चा की", "किसी को नहीं पता था कि पुराना पुस्तकालय कहाँ था"],
    "ar": ["ناقشت اللجنة يوم الثلاثاء ميزانية المدينة", "لم يعرف أحد أين كانت المكتبة القديمة"],
    "ta": ["குழு செவ்வாய்க்கிழமை நகர பட்ஜெட்டை விவாதித்தது", "பழைய நூலகம் எங்கே இருந்தது என்று யாருக்கும் தெரியாது"],
    "th": ["คณะกรรมการหารือเรื่องงบประมาณเมื่อวันอังคาร", "ไม่มีใครรู้ว่าห้องสมุดเก่าอยู่ที่ไหน"],
    "ja": ["委員会は火曜日に市の予算について話し合った", "古い図書館がどこにあったのか誰も知らなかった"],
    "zh": ["委员会星期二讨论了城市的预算", "没有人知道旧图书馆在哪里"],
    "ko": ["위원회는 화요일에 시의 예산을 논의했다", "오래된 도서관이 어디에 있었는지 아무도 몰랐다"],
}


@pytest.mark.parametrize("code", SENTENCES)
def test_two_sentences_suffice_in_any_language(code: str) -> None:
    assert detect_languages(SENTENCES[code]) == [code]
    assert code in NAMES  # and it is called by its name


@pytest.mark.parametrize("words", ["dough yeast crust loaf goal keeper", "apple pear horse train ticket window doctor"])
def test_few_words_are_in_no_second_language_however_often_they_are_repeated(words: str) -> None:
    turned = words.split()
    texts = [" ".join((turned[i % 7 :] + turned[: i % 7])[: 2 + i % 4]) for i in range(60)]
    assert detect_languages(texts) in ([], ["en"])
    assert detect_languages(words.split()[:4]) == []


@pytest.mark.parametrize(
    "texts",
    [
        ["a b", "🙂 🙂"],
        ["A-1234", "B-5678"] * 30,
        ["Berlin", "Paris", "London", "Madrid", "Rome", "Vienna", "Prague"],
        ["\ud83d" * 50],  # halves of characters
        [],
    ],
)
def test_what_is_in_no_language_is_in_none(texts: list[str]) -> None:
    assert detect_languages(texts) == []


def test_a_further_language_is_stated_where_two_pieces_and_a_tenth_are_certainly_in_it() -> None:
    german, french = ([" ".join([a, b]), " ".join([b, a])] for a, b in (SENTENCES["de"], SENTENCES["fr"]))
    assert detect_languages([*german, *french]) in (["de", "fr"], ["fr", "de"])
    assert detect_languages([*german, french[0]]) == ["de"]  # one piece
    many = [f"{german[i % 2]} {i}" for i in range(40)]
    assert detect_languages([*many, *french]) == ["de"]  # less than a tenth


def test_languages_that_alternate_by_rows_are_both_seen() -> None:
    rows = [f"{i} {' '.join(SENTENCES[code])}" for i in range(200) for code in ("de", "fr")]
    assert set(detect_languages(rows)) == {"de", "fr"}


def test_an_answer_is_kept_and_no_other_is_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{number} Der Hund schläft heute lange vor dem warmen Ofen in der Küche." for number in range(5)]
    loaded: list[int] = []
    load = languages._load_identifier

    def detect(home: Path) -> list[str]:
        monkeypatch.setenv("TRAUBE_HOME", str(home))
        monkeypatch.setattr(languages, "_load_identifier", lambda: (loaded.append(1), load())[1])
        languages._detect_of_pieces.cache_clear()  # as in another process
        loaded.clear()
        return detect_languages(texts)

    home = tmp_path / "home"
    assert detect(home) == ["de"] and not home.exists()  # reading makes no data directory
    home.mkdir()
    assert detect(home) == ["de"] and loaded
    assert detect(home) == ["de"] and not loaded
    path = home / "languages.json"
    (key,) = json.loads(path.read_text())
    for false in (["xx"], "de", [1], [["de"]]):
        path.write_text(json.dumps({key: false}))
        assert detect(home) == ["de"] and loaded
    path.write_text("{")
    assert detect(home) == ["de"] and loaded
