"""A method: a reducer, a clusterer and all their parameters."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from traube._core.errors import Unknown, unknown
from traube.components.registry import CLUSTERERS, REDUCERS, get_clusterer, get_reducer

if TYPE_CHECKING:
    import pandas as pd

Params = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, repr=False)
class Method:
    """A reducer and a clusterer by name, with parameters; those not given are the defaults.

    Attributes
    ----------
    reducer : str
        Name of the reducer.
    clusterer : str
        Name of the clusterer.
    reducer_params : mapping
        All parameters of the reducer.
    clusterer_params : mapping
        All parameters of the clusterer.

    Examples
    --------
    >>> from traube.components import Method
    >>> method = Method("umap", "kmeans", {"n_neighbors": 30})
    >>> method.name, method.reducer_params["n_neighbors"], method.reducer_params["min_dist"]
    ('umap/kmeans', 30, 0.1)
    """

    reducer: str
    clusterer: str
    reducer_params: Mapping[str, Any] = field(default_factory=dict)
    clusterer_params: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Resolved at once, so that a misspelled parameter is found before hours of work, and equal methods are equal.
        object.__setattr__(self, "reducer_params", get_reducer(self.reducer).resolve(self.reducer_params))
        object.__setattr__(self, "clusterer_params", get_clusterer(self.clusterer).resolve(self.clusterer_params))

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        parts = (get_reducer(self.reducer), self.reducer_params), (get_clusterer(self.clusterer), self.clusterer_params)
        changed = {k: v for part, params in parts for k, v in params.items() if v != part.params.get(k)}
        return f"Method({', '.join([repr(self.name), *(f'{key}={value!r}' for key, value in changed.items())])})"

    @property
    def name(self) -> str:
        """`<reducer>/<clusterer>`, such as "pca+umap/hdbscan"."""
        return f"{self.reducer}/{self.clusterer}"

    @property
    def reduces(self) -> bool:
        """True if other points are clustered than the vectors themselves."""
        return not get_reducer(self.reducer).identity

    @property
    def reducer_seeded(self) -> bool:
        """True if the reduction depends on the seed."""
        return get_reducer(self.reducer).seeded

    @property
    def seeded(self) -> bool:
        """True if anything depends on the seed; if not, one seed is as good as many."""
        return self.reducer_seeded or get_clusterer(self.clusterer).seeded

    @property
    def trains(self) -> bool:
        """True if its clusterer trains the encoder whose vectors other clusterers group."""
        return get_clusterer(self.clusterer).input_kind == "encoder"

    def unsupported(self) -> str | None:
        """Return why this pair makes no sense, in one line; None if it does."""
        component = get_clusterer(self.clusterer)
        if component.fitted_on != "vectors" and self.reduces:
            return f"{self.clusterer} works on texts, and {self.reducer} reduces vectors: use none/{self.clusterer}"
        if component.input_kind == "reduced" and not self.reduces:
            return (
                f"{self.clusterer} looks for dense regions, and unreduced vectors have too many dimensions "
                f"for any to stand out: reduce them first, for example umap/{self.clusterer}"
            )
        if component.input_kind == "embeddings" and self.reduces:
            return (
                f"{self.clusterer} compares directions, and angles about the arbitrary origin of {self.reducer} "
                f"coordinates mean nothing: use none/{self.clusterer}, or a clusterer by distance"
            )
        return None

    def unsupported_by_distance(self) -> str | None:
        """Return why the method makes no sense for a model that gives distances in place of vectors.

        The reason is one line; None if the method does make sense.
        """
        if self.reduces:
            return f"a similarity gives distances, and {self.reducer} reduces vectors: use none/agglomerative_average"
        component = get_clusterer(self.clusterer)
        if component.chooses_k(self.clusterer_params):
            return f"a similarity gives distances, and {component.name} with 'k: auto' chooses k from vectors"
        if component.by_distance(self.clusterer_params) is None:
            return f"a similarity gives distances, and {component.name} works on {component.fitted_on}: use none/agglomerative_average"
        return None

    @property
    def numerics(self) -> dict[str, dict[str, str]]:
        """Code that computes the reduction and the clustering, with versions."""
        return {"reducer": get_reducer(self.reducer).numerics, "clusterer": get_clusterer(self.clusterer).numerics}

    def params(self) -> dict[str, Any]:
        """Return everything that identifies the method, for hashing and for people; JSON can write it."""
        return {
            "reducer": self.reducer,
            "reducer_params": dict(self.reducer_params),
            "clusterer": self.clusterer,
            "clusterer_params": dict(self.clusterer_params),
        }


def parse_method(name: str, params: Params | None = None) -> Method:
    """Return the method of a name such as "umap/hdbscan", in any case; "kmeans" is "none/kmeans".

    Parameters
    ----------
    name : str
        A clusterer, or reducer/clusterer.
    params : mapping, optional
        Parameters by component, such as {"umap": {"n_neighbors": 30}}. One table may serve many
        methods: what it says of other components is left aside.

    Returns
    -------
    Method
        The method.

    Raises
    ------
    TraubeError
        If a component or a parameter does not exist.

    Examples
    --------
    >>> from traube.components import parse_method
    >>> parse_method("UMAP/hdbscan", {"umap": {"n_neighbors": 30}}).reducer_params["n_neighbors"]
    30
    """
    reducer, slash, clusterer = name.partition("/") if "/" in name else ("none", "", name)
    reducer, clusterer = _match_case(reducer, REDUCERS), _match_case(clusterer, CLUSTERERS)
    if not slash and clusterer not in CLUSTERERS:
        near = ", ".join(get_close_matches(clusterer, CLUSTERERS, n=3))
        raise Unknown(
            f"'{name}' is no method: write a clusterer{f' ({near}?)' if near else ''}, or reducer/clusterer, such as umap/hdbscan"
        )
    params = params or {}
    for component in params:
        if component not in REDUCERS and component not in CLUSTERERS:
            raise unknown("reducer or clusterer", component, [*REDUCERS, *CLUSTERERS])
    return Method(reducer, clusterer, params.get(reducer) or {}, params.get(clusterer) or {})


def _match_case(name: str, registry: Iterable[str]) -> str:
    """Return a registered name in its registered case; an unknown name is returned unchanged."""
    return next((known for known in registry if known.casefold() == name.casefold()), name)


def is_method(name: str, wanted: str) -> bool:
    """Return whether a person who writes `wanted` means the method of a name, registered or not."""
    return name.casefold() in (wanted.casefold(), f"none/{wanted}".casefold())


def name_methods(cells: "pd.DataFrame") -> "pd.Series[str]":
    """Return the name of each cell's method, as `Method.name` has it."""
    return cells["reducer"] + "/" + cells["clusterer"]


def grid(reducers: Iterable[str], clusterers: Iterable[str], params: Params | None = None) -> list[Method]:
    """Return every pair of reducer and clusterer.

    Unsupported pairs are included: they are shown as such, not left out.

    Parameters
    ----------
    reducers : iterable of str
        Names of reducers.
    clusterers : iterable of str
        Names of clusterers.
    params : mapping, optional
        Parameters by component, as in `parse_method`.

    Returns
    -------
    list of Method
        The methods, reducer by reducer.

    Examples
    --------
    >>> from traube.components import grid
    >>> [method.name for method in grid(["none", "pca"], ["kmeans", "hdbscan"])]
    ['none/kmeans', 'none/hdbscan', 'pca/kmeans', 'pca/hdbscan']
    """
    clusterers = list(clusterers)
    return [parse_method(f"{reducer}/{clusterer}", params) for reducer in reducers for clusterer in clusterers]
