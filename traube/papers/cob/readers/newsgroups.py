"""20 Newsgroups by date, in blocks of fifty posts, as COB clusters them (Kashyapi & Dietz, RepL4NLP 2021, section 4.1)."""

import tarfile
import zlib
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path, PurePosixPath

import numpy as np
import pandas as pd
from typing_extensions import override

from traube._core.errors import Malformed, TooFew, Unavailable
from traube._core.files import write_text
from traube._core.inputs import CHUNK, open_limited
from traube._core.paths import raw
from traube.papers.cob import TASKS
from traube.tasks.source import Source, catalogue_card
from traube.tasks.splitting import split_by_value
from traube.tasks.task import TaskCard

URL = "https://ndownloader.figshare.com/files/5975967"
SHA256 = "8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610"
BLOCK = 50
VALIDATION = 0.2
LEVEL = "newsgroup"


class Newsgroups(Source):
    """Posts without headers, footers and quotes; those of which nothing is left are dropped from their block.

    Posts come in the order in which scikit-learn shuffles them; each subset is cut into consecutive blocks, and the rest
    that fills no block is dropped. Of the training subset the last fifth of the blocks is for validation.

    Parameters
    ----------
    shifted_labels : bool, default=False
        In validation and test, keep the first labels of a block instead of those of the posts that are left, as the
        reference code does; from the first empty post on, labels are those of other posts.
    """

    has_training_splits = True

    def __init__(self, name: str, shifted_labels: bool = False) -> None:
        super().__init__(catalogue_card(TASKS, name, TaskCard))
        self.shifted_labels = shifted_labels

    @override
    def files(self) -> list[Path]:
        return [raw() / "20newsgroups" / "20news-bydate.tar.gz"]

    @override
    def fetch(self) -> None:
        (path,) = self.files()
        if path.is_file():
            return
        import pooch

        try:
            pooch.retrieve(URL, known_hash=f"sha256:{SHA256}", fname=path.name, path=path.parent)
        except Exception as error:  # the client raises many kinds; all mean: not to be had now
            raise Unavailable(f"task '{self.name}': {URL} cannot be downloaded ({error})") from error
        write_text(path.with_name(f"{path.name}.sha256"), f"{SHA256}  {path.name}\n")

    @override
    def read(self) -> pd.DataFrame:
        blocks = []
        for _, block in self.read_posts().groupby("split", sort=False):
            kept = block[block["text"].str.strip() != ""]
            if self.shifted_labels and block["part"].iloc[0] != "train":
                kept = kept.assign(**{LEVEL: block[LEVEL].to_numpy()[: len(kept)]})
            blocks.append(kept)
        return pd.concat(blocks, ignore_index=True)

    def read_posts(self, subsets: Sequence[str] = ("train", "test")) -> pd.DataFrame:
        """Return text, newsgroup, split and part of all posts of each block, also of those of which nothing is left."""
        (path,) = self.files()
        try:
            with open_limited(path) as file, tarfile.open(fileobj=file, mode="r|") as archive:
                posts = {PurePosixPath(m.name).parts: _read_text(archive, m) for m in archive if not m.isdir()}
                while file.read(CHUNK):  # to the end, where gzip's checksum is
                    pass
        except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error) as error:
            raise Malformed(f"{path}: not a readable archive ({error})") from None
        return pd.concat([self._blocks(path, posts, subset) for subset in subsets], ignore_index=True)

    def draw(self, records: pd.DataFrame) -> pd.DataFrame:
        """Return a split for each block."""
        return split_by_value(records, "split", LEVEL)

    def _blocks(self, path: Path, archived: Mapping[tuple[str, ...], str], subset: str) -> pd.DataFrame:
        from sklearn.datasets import _twenty_newsgroups as twenty

        folder = f"20news-bydate-{subset}"
        names = sorted(name for name in archived if name[:-2] == (folder,))
        if not names:
            raise Malformed(f"{path}: there is no folder {folder} in it")
        order = np.arange(len(names))
        for seed in (0, 42):  # scikit-learn shuffles as it reads a folder, and once more: the paper's random grouping
            np.random.RandomState(seed).shuffle(order)
        names = [names[i] for i in order]
        strip = (twenty.strip_newsgroup_header, twenty.strip_newsgroup_footer, twenty.strip_newsgroup_quoting)
        texts = [reduce(lambda text, each: each(text), strip, archived[name]) for name in names]
        posts = pd.DataFrame({"text": texts, LEVEL: [name[1] for name in names]})

        count = len(posts) // BLOCK
        if not count:
            raise TooFew(f"{path}: {folder} has {len(posts)} posts, fewer than a block of {BLOCK}")
        posts = posts[: count * BLOCK]
        number, first_held_out = posts.index // BLOCK, count - round(VALIDATION * count)
        is_held_out = (number >= first_held_out) & (subset == "train")
        return posts.assign(
            split=[f"{subset}_{i:03d}" for i in number], part=np.where(is_held_out, "validation", subset)
        )


def _read_text(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file = archive.extractfile(member) if member.isfile() else None
    if file is None:
        raise tarfile.TarError(f"{member.name} is no file")
    return file.read().decode("latin1")


def sources() -> list[Source]:
    """Return the tasks of newsgroups: with right labels, and with the paper's shifted ones."""
    return [Newsgroups("newsgroups"), Newsgroups("newsgroups_paper", shifted_labels=True)]
