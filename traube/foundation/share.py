"""What several machines share: files of this home are copies of what lies below `TRAUBE_SHARE`.

Reading needs nothing but the copies: `refresh` fetches what others have written since, each file
checked by its own seal, and hands over what they have not got yet. What this home writes is sent by
`traube.foundation.files` as soon as it is whole here, so a record is there after what it speaks of.
Which version of a file a copy is of is noted in a ledger, so that nothing is sent or fetched twice,
and a copy whose time or size shows that it was damaged here is fetched again. Where they do not show
it (a bad block), `traube clean` removes the copy here, and the next look fetches it.

Whoever removes a file leaves a *notice* below `gone/`. Each home heeds a notice once, so that a file
that is written anew stays. What is absent without one was lost there, and is sent again.

Not shared is what is of this machine: Dagster's instance, logs, indexes, locks, tables that are
made of what is stored. Vectors and checkpoints are shared by `traube.models`.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from traube.foundation import paths, settings
from traube.foundation.disk import below
from traube.foundation.errors import TraubeError
from traube.foundation.hashing import digest
from traube.foundation.identity import ABOUT, about, readable, write_about
from traube.foundation.remote import SKEW, Remote, remote_at
from traube.foundation.seals import is_intact

if TYPE_CHECKING:  # most homes are not shared
    import sqlite3

STORE = "store"
GONE = "gone"  # notices of what was removed: gone/NAME/VERSION.ID
# folders of the store that are of this machine; of its tables, what cannot be made again is shared
LOCAL = ("index", "trainings", "pages", "claims")
KEPT = ("tables/nights/", "tables/published.parquet")
LATE = ("store/reductions/", "store/matrices/", "store/representations/")  # large: fetched when they are asked for
SECONDS = 10.0  # between two looks at what others have written
AT_ONCE = 16  # files

Stamp = tuple[int, int]  # time and size of a file here
Known = dict[str, tuple[str, Stamp]]  # of each copy its version in the share, and how it looked then


def is_shared(name: str) -> bool:
    """Whether a file of the home, such as `store/tasks/x/corpus.parquet`, is everybody's."""
    top, _, rest = name.partition("/")
    if top != STORE or not rest or name.endswith(".lock") or "/." in name:
        return False
    folder = rest.partition("/")[0]
    return rest.startswith(KEPT) if folder == "tables" else folder not in LOCAL


@dataclass
class Share:
    """The copies of a home, and what they are copies of.

    Attributes
    ----------
    theirs : versions in the share, by name, as they were at the last look
    notices : what tells of removals, by the name of what was removed, as they were then
    """

    home: Path
    remote: Remote
    theirs: dict[str, str] = field(default_factory=dict)
    notices: dict[str, set[str]] = field(default_factory=dict)
    _looked: float = -SECONDS
    _compared: bool = False  # whether this process has looked for what was written here without it
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def ledger(self) -> "Ledger":
        return Ledger(self.home / f"share-{digest(self.remote.url)}.db")

    def send(self, name: str) -> None:
        """Hand over a file that was written here."""
        path = self.home / name
        stamp = _stamp(path)  # before: what is written while it is sent differs from it, and is sent too
        version = self.remote.upload(name, path)
        self.ledger.note(name, version, stamp)
        self.theirs[name] = version
        if told := self.notices.pop(name, None):  # of what it was before: it is written anew
            self.ledger.heed(told)

    def drop(self, name: str) -> None:
        """Remove what was removed here; what is fetched when it is asked for stays with the others."""
        if name.startswith(LATE):
            return
        version = self.ledger.version(name) or self.theirs.get(name)
        if version:  # what nobody has needs no notice
            notice = f"{GONE}/{name}/{digest(version)}.{uuid4().hex[:16]}"
            self.remote.write(notice, b"")
            self.notices.setdefault(name, set()).add(notice)
        self.remote.remove(name)
        self.ledger.forget([name])
        self.theirs.pop(name, None)

    def bring(self, name: str) -> None:
        """Fetch one file, if others have it and it is not here."""
        if name in self.theirs and not (self.home / name).exists():
            self._fetch([name], {})

    def refresh(self) -> None:
        """As `look`, unless this process has done so within some seconds."""
        if time.monotonic() - self._looked > SECONDS:
            self.look()

    def look(self) -> None:
        """Bring this home and the share to the same state: theirs wins where both have changed.

        Raises
        ------
        TraubeError
            If the share cannot be reached or was emptied, or this machine's clock is wrong.
        """
        with self._lock:
            # listing takes a while: what other processes of this home write meanwhile is left to them
            known, here = self.ledger.known(), self._here()
            self.theirs = {n: v for n, v in self.remote.versions(STORE).items() if is_shared(n)}
            skew = self.remote.skew
            if skew is not None and abs(skew) > SKEW:
                said = f"this machine's clock is {abs(skew):.0f} seconds {'ahead of' if skew > 0 else 'behind'} its server's"
                raise TraubeError(f"{self.remote.url}: {said}; set it (NTP): the dates of results would be wrong")
            gone = self._heed(known)
            lost = known.keys() - self.theirs.keys() - gone
            if lost:
                identify(self.home, self.remote)  # is it this home's still, or was all of it lost?
                self.ledger.forget(lost - here.keys())
            theirs = (
                name
                for name, version in self.theirs.items()
                if (name not in known or known[name][0] != version if name in here else not name.startswith(LATE))
            )
            self._fetch(theirs, here)
            changed = set() if self._compared else _changed(here, known)
            # what was just removed may be on its way out here too; written anew, it is sent at the next look
            mine = here.keys() - self.theirs.keys() - gone
            mine |= {name for name in changed if known[name][0] == self.theirs.get(name)}
            self._send(mine, here)
            self._compared, self._looked = True, time.monotonic()

    def _here(self) -> dict[str, Stamp]:
        cut = len(str(self.home)) + 1
        files = ((entry.path[cut:].replace(os.sep, "/"), entry) for entry in below(self.home / STORE))
        found = {name: _stamp_or_none(entry) for name, entry in files if is_shared(name) and entry.is_file()}
        return {name: stamp for name, stamp in found.items() if stamp}

    def _heed(self, known: Known) -> set[str]:
        """What others have removed since the last look; here it is removed too, unless it was written
        anew.
        """
        # listed after the files: a notice is written before its file goes
        listed = {notice: _told_by(notice) for notice in self.remote.versions(GONE)}
        self.notices = {}
        for notice, (name, _) in listed.items():
            self.notices.setdefault(name, set()).add(notice)
        heeded = self.ledger.heeded() if listed else set()
        new = {notice: told for notice, told in listed.items() if notice not in heeded}
        gone = {name for name, _ in new.values()} - self.theirs.keys()
        self._remove(gone & known.keys(), known)
        # where its file is as it was, a removal may be going on
        self.ledger.heed(notice for notice, (name, of) in new.items() if of != digest(self.theirs.get(name)))
        return gone

    def _remove(self, names: set[str], known: Known) -> None:
        now = self.ledger.known() if names else {}
        copies = [name for name in names if now.get(name) == known[name]]
        for name in copies:
            path = self.home / name
            if _stamp_or_none(path) == known[name][1]:
                path.unlink(missing_ok=True)
        self.ledger.forget(copies)

    def _fetch(self, names: Iterable[str], here: Mapping[str, Stamp]) -> None:
        """Fetch files into the places of those that are here, unless these were written anew."""
        from concurrent.futures import ThreadPoolExecutor

        for group in _records_last(names):
            with ThreadPoolExecutor(AT_ONCE) as pool:
                notes = [note for note in pool.map(lambda name: self._copy(name, here.get(name)), group) if note]
            self.ledger.note_all(notes)

    def _copy(self, name: str, before: Stamp | None) -> tuple[str, str, Stamp] | None:
        path, version = self.home / name, self.theirs[name]
        new = path.with_name(f".{path.name}.{uuid4().hex}{path.suffix}")
        new.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.remote.download(name, new)
            if not is_intact(new):
                _say(f"{self.remote.where(name)}: damaged, and passed over")
                return None
            if _stamp_or_none(path) != before:  # another process has written it, and sends it
                return None
            stamp = _stamp(new)
            new.replace(path)
        except FileNotFoundError:  # removed meanwhile
            return None
        finally:
            new.unlink(missing_ok=True)
        return name, version, stamp

    def _send(self, names: Iterable[str], here: Mapping[str, Stamp]) -> None:
        from concurrent.futures import ThreadPoolExecutor

        for group in _records_last(names):
            as_found = [name for name in group if _stamp_or_none(self.home / name) == here[name]]
            sound = [name for name in as_found if is_intact(self.home / name)]
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(self.send, sound))
            damaged = set(as_found).difference(sound) & self.theirs.keys()
            self._fetch(damaged, here)


def _records_last(names: Iterable[str]) -> list[list[str]]:
    """Files in two groups, so that whoever reads a record finds what it speaks of."""
    ordered = sorted(names)
    groups = [[n for n in ordered if not n.endswith(".json")], [n for n in ordered if n.endswith(".json")]]
    return [group for group in groups if group]


def _told_by(notice: str) -> tuple[str, str]:
    """The file that a notice is of, and a hash of the version that was removed."""
    name, _, mark = notice.removeprefix(f"{GONE}/").rpartition("/")
    return name, mark.partition(".")[0]


def _changed(here: Mapping[str, Stamp], known: Known) -> set[str]:
    """Copies that are not as they were noted: written while the share could not be reached, or
    damaged.
    """
    return {name for name, stamp in here.items() if name in known and known[name][1] != stamp}


def _stamp(path: "Path | os.DirEntry[str]") -> Stamp:
    state = path.stat()
    return state.st_mtime_ns, state.st_size


def _stamp_or_none(path: "Path | os.DirEntry[str]") -> Stamp | None:
    try:
        return _stamp(path)
    except FileNotFoundError:
        return None


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


@dataclass(frozen=True)
class Ledger:
    """Which version in the share each copy is of, and what the copy looked like then; and which notices
    were heeded: a SQLite file. Without it everything is compared again.
    """

    path: Path

    def known(self) -> Known:
        with self._open() as table:
            rows = table.execute("SELECT name, version, time, size FROM copies").fetchall()
        return {name: (version, (changed, size)) for name, version, changed, size in rows}

    def version(self, name: str) -> str | None:
        with self._open() as table:
            row = table.execute("SELECT version FROM copies WHERE name = ?", (name,)).fetchone()
        return row[0] if row else None

    def note(self, name: str, version: str, stamp: Stamp) -> None:
        self.note_all([(name, version, stamp)])

    def note_all(self, notes: Iterable[tuple[str, str, Stamp]]) -> None:
        with self._open() as table:
            rows = [(name, version, *stamp) for name, version, stamp in notes]
            table.executemany("INSERT OR REPLACE INTO copies VALUES (?, ?, ?, ?)", rows)

    def forget(self, names: Iterable[str]) -> None:
        with self._open() as table:
            table.executemany("DELETE FROM copies WHERE name = ?", [(name,) for name in names])

    def heeded(self) -> set[str]:
        with self._open() as table:
            return {row[0] for row in table.execute("SELECT notice FROM heeded")}

    def heed(self, notices: Iterable[str]) -> None:
        with self._open() as table:
            table.executemany("INSERT OR IGNORE INTO heeded VALUES (?)", [(notice,) for notice in notices])

    @contextmanager
    def _open(self) -> Iterator["sqlite3.Connection"]:
        import sqlite3

        with closing(sqlite3.connect(self.path, timeout=60)) as table, table:
            table.execute("PRAGMA synchronous = OFF")  # after a power cut, what it lacks is compared again
            table.execute(
                "CREATE TABLE IF NOT EXISTS copies (name TEXT PRIMARY KEY, version TEXT, time INTEGER, size INTEGER)"
            )
            table.execute("CREATE TABLE IF NOT EXISTS heeded (notice TEXT PRIMARY KEY)")
            yield table


# which home it is


def identify(home: Path, remote: Remote) -> None:
    """Make sure that a share is this home's. An empty share becomes it; a home in which nothing is
    computed yet becomes the share's.

    Raises
    ------
    TraubeError
        If it is another home's.
    """
    theirs = about_share(remote)
    if theirs is None and (home / ABOUT).exists() and _has_copies(home, remote):
        raise TraubeError(
            f"{remote.url}: empty, though {home} has copies of it; restore it, or fill it with `traube move-home`"
        )
    if theirs is None:
        mine = json.dumps(about(home)).encode()
        if remote.swaps:
            remote.swap(ABOUT, mine, None)
        else:
            remote.write(ABOUT, mine)
        theirs = about_share(remote) or {}
    if not _is_used(home):
        write_about(home, theirs)
    mine_id = about(home)["home"]
    if mine_id != theirs["home"]:
        raise TraubeError(
            f"{remote.url}: another home's ({theirs['home'][:8]}; {home} is {mine_id[:8]}): use another URL, or a "
            "TRAUBE_HOME in which nothing is computed yet"
        )


def about_share(remote: Remote) -> dict[str, Any] | None:
    """What a share says of the home that it is of; None if it says nothing."""
    try:
        said = json.loads(remote.read(ABOUT))
    except FileNotFoundError:
        return None
    except ValueError:
        said = {}
    return readable(said if isinstance(said, dict) else {}, remote.url)


def _has_copies(home: Path, remote: Remote) -> bool:
    ledger = Share(home, remote).ledger
    return ledger.path.exists() and bool(ledger.known())


def _is_used(home: Path) -> bool:
    """Whether something was computed in a home, or is a copy."""
    kept = (home / STORE / "results", home / STORE / "tasks", home / STORE / "pairs", home / "embeddings")
    return any(folder.is_dir() and any(folder.iterdir()) for folder in kept)


# what other modules ask


def of_home() -> Share | None:
    """The share of TRAUBE_HOME; None where there is none."""
    url = settings.share()
    return _open(paths.home(), url) if url else None


@lru_cache(maxsize=8)
def _open(home: Path, url: str) -> Share:
    remote = remote_at(url)
    home.mkdir(parents=True, exist_ok=True)
    identify(home, remote)
    return Share(home, remote)


def _name(path: Path) -> str | None:
    """The name of a file of TRAUBE_HOME that is shared; None for any other."""
    text, root = str(path), f"{paths.home()}{os.sep}"
    name = text.removeprefix(root).replace(os.sep, "/")
    return name if text.startswith(root) and is_shared(name) else None


def _tell(act: Callable[[Share, str], None], path: Path) -> None:
    name = _name(path) if settings.share() else None
    if name and (share := of_home()):
        act(share, name)


def about_to_write(path: Path) -> None:
    """To be told before a file is written: whose home this is has to be clear by then."""
    _tell(lambda shared, name: None, path)


def written(path: Path) -> None:
    """To be told of a file that was written."""
    _tell(Share.send, path)


def removed(path: Path) -> None:
    """To be told of a file that is removed."""
    _tell(Share.drop, path)


def bring(path: Path) -> None:
    """Fetch a file that others may have, before it is looked for."""
    _tell(Share.bring, path)


def is_there(path: Path) -> bool:
    """Whether a file is here, or can be brought."""
    if path.exists() or not settings.share():
        return path.exists()
    share, name = of_home(), _name(path)
    return bool(share and name in share.theirs)


def refresh(folder: Path) -> None:
    """Fetch what others have written, if a folder is the shared store."""
    if settings.share() and folder == paths.home() / STORE and (share := of_home()):
        share.refresh()
