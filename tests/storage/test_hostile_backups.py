"""Archives that somebody else made: each place in an archive with each trick, and what is taken over of MLflow's history."""

import io
import json
import tarfile
from itertools import product
from pathlib import Path

import pytest

from tests.storage.made import read_contents, save_cell, save_task
from traube._core.errors import TraubeError
from traube._storage import CellRow, Storage
from traube._storage.backup import restore_backup, write_backup

HEX = "0123456789abcdef" * 4
PLACES = [
    "data/.env",
    "data/x",
    "data/dagster/dagster.yaml",
    "data/mlartifacts/0/x.py",
    "data/blobs/01/../../../x",
    "data/generated_cards/../../x.yaml",
    "data/report",
    "checkpoints/.bashrc",
    "checkpoints/good/a\x1b[31m\nb",
    "checkpoints",
    "../x",
    "/tmp/traube-absolute",
]
# what else a place of a sound backup may be
OWN_PLACES = ["data/mlflow.db", f"data/blobs/01/{HEX}", "data/report/index.html", "checkpoints/good/vocab.txt"]
TYPES = {
    "link to a sibling": (tarfile.SYMTYPE, "../outside"),
    "absolute link": (tarfile.SYMTYPE, "/etc"),
    "link inside": (tarfile.SYMTYPE, "catalog.db"),
    "hard link": (tarfile.LNKTYPE, "/etc/passwd"),
    "pipe": (tarfile.FIFOTYPE, ""),
    "device": (tarfile.CHRTYPE, ""),
    "folder": (tarfile.DIRTYPE, ""),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of a task, a cell, a checkpoint and a page."""
    folder = tmp_path_factory.mktemp("sound")
    storage = Storage(folder / "data")
    save_task(storage)
    save_cell(storage, 1)
    for name in ("checkpoints/good/config.json", "data/names/0a.json"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("{}")
    assert write_backup(storage, folder / "checkpoints", folder / "sound.tar") == []
    return folder / "sound.tar"


def make_member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", content: bytes = b"x") -> tarfile.TarInfo:
    """A member of an archive, with its content at `content`."""
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.size = kind, link, len(content) if kind == tarfile.REGTYPE else 0
    return member


def add(sound: Path, archive: Path, member: tarfile.TarInfo, content: bytes = b"x") -> Path:
    """Copy a backup, and add a member."""
    archive.write_bytes(sound.read_bytes())
    with tarfile.open(archive, "a") as opened:
        opened.addfile(member, io.BytesIO(content))
    return archive


def list_everything(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


def check_refused(archive: Path, home: Path) -> None:
    """Check that an archive is refused in one line, and nothing is written anywhere."""
    home.mkdir(parents=True)
    before = list_everything(home.parents[1])
    with pytest.raises(TraubeError) as refused:
        restore_backup(archive, home, home.parent / "checkpoints")
    assert "\n" not in str(refused.value)
    assert "\x1b" not in str(refused.value)
    assert list_everything(home.parents[1]) == before


@pytest.mark.parametrize(
    ("place", "trick"), [*((place, "file") for place in PLACES), *product((*PLACES, *OWN_PLACES), TYPES)]
)
def test_a_place_that_no_backup_has_is_refused(sound: Path, tmp_path: Path, place: str, trick: str) -> None:
    kind, link = TYPES.get(trick, (tarfile.REGTYPE, ""))
    check_refused(add(sound, tmp_path / "x.tar", make_member(place, kind, link)), tmp_path / "in" / "data")
    assert not Path("/tmp/traube-absolute").exists()


def test_sizes_are_held_against_the_archive(sound: Path, tmp_path: Path) -> None:
    """A file that says to be larger than the archive, a card that is larger than any, and an archive that is packed."""
    huge = bytearray(add(sound, tmp_path / "huge.tar", make_member("data/names/0b.json")).read_bytes())
    at = huge.rindex(b"data/names/0b.json")
    huge[at + 124 : at + 136] = b"77777777777\0"
    huge[at + 148 : at + 156] = b" " * 8
    huge[at + 148 : at + 156] = b"%06o\0 " % sum(huge[at : at + 512])
    (tmp_path / "huge.tar").write_bytes(huge)
    check_refused(tmp_path / "huge.tar", tmp_path / "1" / "data")
    card = b"#" * (256 * 2**10 + 1)
    large = add(sound, tmp_path / "card.tar", make_member("data/generated_cards/a.yaml", content=card), card)
    check_refused(large, tmp_path / "2" / "data")
    with tarfile.open(tmp_path / "packed.tar", "w:xz") as packed, tarfile.open(sound) as opened:
        for member in opened.getmembers():
            packed.addfile(member, opened.extractfile(member))
    check_refused(tmp_path / "packed.tar", tmp_path / "3" / "data")
    sparse = make_member("data/names/0b.json", content=b"0\n")
    sparse.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(2**42)}
    check_refused(add(sound, tmp_path / "sparse.tar", sparse, b"0\n"), tmp_path / "4" / "data")


@pytest.mark.parametrize(
    "second", ["checkpoints/good/config.json", "checkpoints/good/config.json/x", "checkpoints/good/x"]
)
def test_a_name_is_restored_once(sound: Path, tmp_path: Path, second: str) -> None:
    archive = add(sound, tmp_path / "x.tar", make_member(second))
    if second.endswith("good/x"):
        assert restore_backup(archive, tmp_path / "in" / "data", tmp_path / "in" / "checkpoints") == []
        assert (tmp_path / "in" / second).read_bytes() == b"x"
    else:
        check_refused(archive, tmp_path / "in" / "data")


def test_a_sound_backup_gives_the_same_catalog(sound: Path, tmp_path: Path) -> None:
    """Pages and tables that it holds are not taken over; nor is the mode of a file, nor does the owner's `.env` change."""
    page = make_member("data/report/index.html", content=b"<script>")
    page.mode = 0o777
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / ".env").write_text("TRAUBE_WORKERS=1\n")
    archive = add(sound, tmp_path / "x.tar", page, b"<script>")
    assert restore_backup(archive, tmp_path / "data", tmp_path / "checkpoints") == []
    restored, original = Storage(tmp_path / "data"), Storage(sound.parent / "data")
    assert read_contents(restored) == read_contents(original)
    assert restored.verify() == []
    assert not (tmp_path / "data" / "report").exists()
    assert (tmp_path / "data" / ".env").read_text() == "TRAUBE_WORKERS=1\n"
    assert (tmp_path / "checkpoints" / "good" / "config.json").stat().st_mode & 0o777 == 0o600


def test_a_blob_of_other_bytes_is_named_and_not_restored(sound: Path, tmp_path: Path) -> None:
    archive = add(sound, tmp_path / "x.tar", make_member(f"data/blobs/01/{HEX}"))
    (line,) = restore_backup(archive, tmp_path / "data", tmp_path / "checkpoints")
    assert HEX in line
    assert not (tmp_path / "data" / "blobs" / "01" / HEX).exists()


@pytest.mark.parametrize("card", [b"kind: endpoint\nurl: https://x/v1\nmodel: m\n", b"url: http://127.0.0.1/v1\n"])
def test_no_card_of_an_endpoint_is_restored(sound: Path, tmp_path: Path, card: bytes) -> None:
    """Texts would be sent there, with the user's key."""
    archive = add(sound, tmp_path / "x.tar", make_member("data/generated_cards/a.yaml", content=card), card)
    (line,) = restore_backup(archive, tmp_path / "data", tmp_path / "checkpoints")
    assert "a.yaml" in line and not (tmp_path / "data" / "generated_cards" / "a.yaml").exists()
    plain = b"model: intfloat/multilingual-e5-small\n"
    archive = add(sound, tmp_path / "y.tar", make_member("data/generated_cards/a.yaml", content=plain), plain)
    assert restore_backup(archive, tmp_path / "2" / "data", tmp_path / "2" / "checkpoints") == []
    assert (tmp_path / "2" / "data" / "generated_cards" / "a.yaml").read_bytes() == plain


def test_without_a_platform_no_history_is_restored(sound: Path, tmp_path: Path) -> None:
    """And a history that cannot be taken over leaves the results."""
    archive = add(sound, tmp_path / "x.tar", make_member("data/mlflow.db", content=b"no database"), b"no database")
    for number, adopt in enumerate((None, lambda file: [f"not restored: {file.read_bytes()!r}"])):
        (line,) = restore_backup(archive, tmp_path / f"{number}", tmp_path / f"checkpoints{number}", adopt)
        assert "not restored" in line
        assert not (tmp_path / f"{number}" / "mlflow.db").exists()
        assert len(Storage(tmp_path / f"{number}").read_rows(CellRow)) == 1


def test_what_a_backup_leaves_out_is_named(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "data")
    (tmp_path / "data" / "notes").mkdir()
    (tmp_path / "data" / "notes" / "mine.txt").write_text("a")
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "linked").symlink_to(tmp_path)
    lines = write_backup(storage, tmp_path / "checkpoints", tmp_path / "x.tar")
    assert [line.partition(":")[0] for line in lines] == [
        str(tmp_path / name) for name in ("data/notes", "checkpoints/linked")
    ]
    with tarfile.open(tmp_path / "x.tar") as archive:
        assert not any("mine" in name or "linked" in name for name in archive.getnames())


@pytest.mark.parametrize(
    "about", [b"{}", b"[1]", b'{"format": 99}', b"[" * 10_000, b"\xff", json.dumps({"format": 1}).encode()]
)
def test_an_archive_begins_with_what_it_is(tmp_path: Path, about: bytes) -> None:
    """The last one is that of a backup without a file."""
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        archive.addfile(make_member("traube-backup.json", content=about), io.BytesIO(about))
    if b'"format": 1' in about:
        assert restore_backup(tmp_path / "x.tar", tmp_path / "in" / "data", tmp_path / "in" / "checkpoints") == []
    else:
        check_refused(tmp_path / "x.tar", tmp_path / "in" / "data")


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, b"Z", tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
@pytest.mark.parametrize("size", [-512, -(2**40)])
def test_a_negative_size_leads_back_to_no_header(sound: Path, tmp_path: Path, kind: bytes, size: int) -> None:
    """Python's own reader goes round without end."""
    header = bytearray(make_member("data/names/0b.json", content=b"").tobuf(tarfile.GNU_FORMAT))
    header[156:157] = kind
    header[124:136] = (256**12 + size).to_bytes(13, "big")[1:]
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    (tmp_path / "x.tar").write_bytes(sound.read_bytes()[:1024] + header + bytes(tarfile.RECORDSIZE - 1536))
    check_refused(tmp_path / "x.tar", tmp_path / "in" / "data")


def test_a_header_for_all_files_is_refused(sound: Path, tmp_path: Path) -> None:
    """Each file would get a copy of it."""
    with tarfile.open(sound) as old, tarfile.open(tmp_path / "x.tar", "w", pax_headers={"comment": "x"}) as new:
        for member in old.getmembers():
            new.addfile(member, old.extractfile(member))
    check_refused(tmp_path / "x.tar", tmp_path / "in" / "data")


def test_a_header_of_a_gigabyte_is_not_read(sound: Path, tmp_path: Path) -> None:
    """The archive is as large, and takes no room on the disk."""
    header = make_member("pax", tarfile.XHDTYPE)
    header.size = 2**30
    (tmp_path / "x.tar").write_bytes(sound.read_bytes()[:1024] + header.tobuf(tarfile.GNU_FORMAT))
    with (tmp_path / "x.tar").open("r+b") as file:
        file.truncate(2**30 + tarfile.RECORDSIZE)
    check_refused(tmp_path / "x.tar", tmp_path / "in" / "data")
