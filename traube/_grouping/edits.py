"""A person's changes, in groups.yaml, of the groups, which are renamed, merged and split, one after the other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, StringConstraints, model_validator

from traube._core.config import Strict, parse, read_yaml
from traube._core.errors import Changed, Conflict, TraubeError, Unknown, unknown
from traube.components._spherical import Labels

SHORTEST = 8  # characters of a text's beginning by which its group is called
SHOWN = 60  # characters of a name in an error

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Group: TypeAlias = Annotated[int, Field(strict=True, ge=0)] | Annotated[Name, Field(strict=True)]
# Cuts the texts at some positions into so many groups, from 0.
Split: TypeAlias = Callable[[NDArray[np.int64], int], Labels]


class Edit(Strict):
    """One change: `rename` with `to`, `merge`, perhaps with `to`, or `split`, perhaps with `into`."""

    rename: Group | None = None
    merge: Annotated[tuple[Group, ...], Field(min_length=2)] | None = None
    split: Group | None = None
    to: Name | None = None
    into: Annotated[int, Field(strict=True, ge=2, le=1000)] | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        given = [name for name in ("rename", "merge", "split") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("say one of rename, merge and split")
        if self.rename is not None and self.to is None:
            raise ValueError("say the new name: `to: NAME`")
        if self.into is not None and self.split is None:
            raise ValueError("`into` is of `split`")
        if self.to is not None and self.split is not None:
            raise ValueError("a group that is split has no one name: rename its parts after it")
        return self

    @property
    def groups(self) -> tuple[int | str, ...]:
        """The groups that the edit changes, as the file calls them."""
        called = (self.rename, self.split, *(self.merge or ()))
        return tuple(int(group) if str(group).isdecimal() else group for group in called if group is not None)


class _File(Strict):
    clustering: str | None = None
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class GroupEdits:
    """The edits of a groups.yaml.

    Attributes
    ----------
    path : Path
        The file.
    clustering : str or None
        The clustering whose groups the file calls by number (`Clustering.fingerprint`).
    edits : tuple of Edit
        The edits, in the file's order.
    lines : tuple of int
        The line of each edit.
    """

    path: Path
    clustering: str | None
    edits: tuple[Edit, ...]
    lines: tuple[int, ...]


@dataclass(frozen=True)
class EditedGroups:
    """Groups after some edits.

    Attributes
    ----------
    labels : ndarray of shape (n_texts,)
        The group of each text, -1 for none. A group keeps its number; merged ones get that of the first that is named;
        of a split one the largest part keeps it.
    parts : ndarray of shape (n_texts,)
        As `labels`, of groups that nobody merged: a new text joins the nearest part, and with it the group.
    names : dict of int to str
        Names that groups were given.
    """

    labels: Labels
    parts: Labels
    names: dict[int, str] = field(default_factory=dict)


def read_edits(path: Path) -> GroupEdits:
    """Read a groups.yaml.

    Raises
    ------
    TraubeError
        If it cannot be read, or says what it cannot say; the message names file, line and key.
    """
    value, lines = read_yaml(path)
    content = parse(_File, value, path, lines)
    numbers = tuple(lines.get(("edits", i), 1) for i in range(len(content.edits)))
    return GroupEdits(path, content.clustering, content.edits, numbers)


def apply_edits(
    edits: GroupEdits, labels: Labels, names: dict[int, str], texts: Sequence[str], fingerprint: str, split: Split
) -> EditedGroups:
    """Change groups by the edits of a file.

    Parameters
    ----------
    edits : GroupEdits
        The file.
    labels : ndarray of shape (n_texts,)
        The group of each text; -1 for none.
    names : dict of int to str
        How groups are called.
    texts : sequence of str
        The texts: a group may be called by one of them.
    fingerprint : str
        Of this clustering; numbers in a file that was written for another one are refused.
    split : callable
        Cuts the texts at some positions into so many groups.

    Raises
    ------
    TraubeError
        If there is no such group, or a group cannot be split so.
    """
    state = _State(edits, labels.copy(), labels.copy(), names, {}, texts, fingerprint, int(labels.max(initial=-1)) + 1)
    for edit, line in zip(edits.edits, edits.lines, strict=True):
        groups = [state.find(group, line) for group in edit.groups]
        if edit.merge is not None:
            state.labels[np.isin(state.labels, groups)] = groups[0]
        elif edit.split is not None:
            state.split(groups[0], edit.into or 2, split, line)
        if edit.to is not None:
            state.rename(groups[0], edit.to, line)
    return EditedGroups(state.labels, state.parts, {c: name for c, name in state.given.items() if c in state.labels})


@dataclass
class _State:
    edits: GroupEdits
    labels: Labels
    parts: Labels
    names: dict[int, str]
    given: dict[int, str]
    texts: Sequence[str]
    fingerprint: str
    free: int  # the next number: that of a group that was merged stays its own

    def find(self, group: int | str, line: int) -> int:
        """Return the number of the group that has a name: its number, its name, or the beginning of one of its texts."""
        where, there = f"{self.edits.path}: line {line}", np.unique(self.labels[self.labels >= 0]).tolist()
        if isinstance(group, int):
            self._check_clustering(group, where)
            if group not in there:
                raise Unknown(f"{where}: {unknown('group', str(group), map(str, there))}")
            return group
        called = {c: self.given.get(c) or self.names.get(c, "") for c in there}
        matches = [c for c in there if called[c] == group]
        if not matches and len(group) >= SHORTEST:
            begin = " ".join(group.split())
            rows = [i for i, text in enumerate(self.texts) if " ".join(text.split()).startswith(begin)]
            matches = [c for c in np.unique(self.labels[rows]).tolist() if c >= 0] if rows else []
        if len(matches) > 1:
            numbers = ", ".join(map(str, matches))
            raise Conflict(f"{where}: '{group[:SHOWN]}' is said of groups {numbers}: call the one by more of a text")
        if not matches:
            raise Unknown(
                f"{where}: {unknown('group', group[:SHOWN], filter(None, called.values()))}; a group is called by its "
                "number, its name, or the beginning of a text in it"
            )
        return matches[0]

    def _check_clustering(self, group: int, where: str) -> None:
        if self.edits.clustering is None:
            raise Conflict(
                f"{where}: group {group} is a number, and numbers are of one clustering: add the line "
                f"`clustering: {self.fingerprint}` if it is of this one, or call the group by the beginning of a text in it"
            )
        if self.edits.clustering != self.fingerprint:
            raise Changed(
                f"{where}: group {group} is of clustering {self.edits.clustering}, and this is {self.fingerprint}: other texts, "
                "settings or versions give other numbers. Call groups by their names, or by the beginning of a text "
                f"in them, or look at these groups and write `clustering: {self.fingerprint}`"
            )

    def rename(self, group: int, name: str, line: int) -> None:
        twin = next((c for c, given in self.given.items() if given == name and c != group and c in self.labels), None)
        if twin is not None:
            raise Conflict(
                f"{self.edits.path}: line {line}: group {twin} is called '{name[:SHOWN]}' already: merge them"
            )
        self.given[group] = name

    def split(self, group: int, into: int, split: Split, line: int) -> None:
        rows = np.flatnonzero(self.labels == group)
        try:
            sublabels = split(rows, into)
        except TraubeError as error:
            raise type(error)(f"{self.edits.path}: line {line}: group {group}: {error}") from None
        by_size = np.argsort(-np.bincount(sublabels), kind="stable")
        number = np.empty(len(by_size), dtype=np.int64)
        number[by_size] = [group, *range(self.free, self.free + len(by_size) - 1)]
        self.labels[rows], self.parts[rows] = number[sublabels], self.parts.max() + 1 + sublabels
        self.free += len(by_size) - 1


def nest(layers: Sequence[Labels], level: int, labels: Labels) -> list[Labels]:
    """Return layers of groups that nest with what one of them has become.

    Parameters
    ----------
    layers : sequence of int64 arrays of shape (n_texts,)
        From the coarsest to the finest, each nested in the one before.
    level : int
        Which of them has changed.
    labels : ndarray of shape (n_texts,)
        What it is now.

    Returns
    -------
    list of int64 arrays of shape (n_texts,)
        In a coarser layer each group lies where most of its texts lay; a finer one is cut where this one is.
    """
    coarser = [layer.copy() for layer in layers[:level]]
    for group in np.unique(labels[labels >= 0]) if coarser else ():
        rows = np.flatnonzero(labels == group)
        parents = layers[level - 1][rows]
        like = rows[parents == np.bincount(parents).argmax()][0]  # a text in the parent that holds most, on every layer
        for new, old in zip(coarser, layers[:level], strict=True):
            new[rows] = old[like]
    return [*coarser, labels, *(_cut(layer, labels) for layer in layers[level + 1 :])]


def _cut(layer: Labels, labels: Labels) -> Labels:
    """Cut the groups of a layer where others are; the first part of each keeps its number."""
    inside = layer >= 0
    pairs, which = np.unique(np.stack([layer[inside], labels[inside]]), axis=1, return_inverse=True)
    is_first = np.diff(pairs[0], prepend=-1) > 0
    number = pairs[0].copy()
    number[~is_first] = layer.max() + 1 + np.arange((~is_first).sum())
    cut_layer = layer.copy()
    cut_layer[inside] = number[which.ravel()]
    return cut_layer
