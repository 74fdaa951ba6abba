"""The registries of reducers and clusterers, and the functions that add one's own."""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from traube._core.errors import Conflict, Invalid, Unsupported, unknown
from traube._core.plugins import Registrations, Registry
from traube._core.versions import get_versions
from traube.components._new_points import Assign, Place, assign_to_nearest_center, keep_vectors, place_by_neighbors

InputKind = Literal["vectors", "reduced", "embeddings", "texts", "encoder"]
NClusters = Literal["given", "optional", "found"]
NUMERICAL = ("numpy", "scipy", "scikit-learn")
PACE = 5e-5  # seconds of a core for each text; most reducers and clusterers take about that for 1,000 texts
GIVEN = ("n_clusters", "random_state")  # set at run time, so never among a component's parameters
AUTO = "auto"  # in place of a number of clusters: the one that `traube.components.choose_stable_k` finds


@dataclass(frozen=True, repr=False)
class Component:
    """A reducer or a clusterer.

    Attributes
    ----------
    build : callable
        Makes the scikit-learn estimator from `params`, with `n_clusters` and `random_state` where the estimator takes
        them.
    params : mapping
        Every parameter that may be set, with its default.
    n_clusters : str
        "given" if the component needs the number of clusters. `k: auto` is then a parameter of it, beside its own: the
        number is chosen from the vectors in place of that of the split's classes. "optional" if it finds the number
        unless a person gives one, "found" if it takes none.
    finds_k : bool
        True if tables report the number of clusters that the component finds.
    reports_layers : bool
        True if the fitted estimator has nested layers and the stability of clusters: `layers_`, `layer_stability_`,
        `cluster_stability_` and `k_table_`, as `traube.components._estimators.stable_kmeans.StableKMeans` has them.
    seeded : bool
        True if the component draws random numbers.
    dense : bool
        True if sparse vectors must be made dense for the component, after a check of the memory.
    quadratic : bool or callable
        True if the component holds all distances, 8 n^2 bytes; or a function that says so of its parameters.
    input_kind : str
        Input on which a clusterer makes sense: "vectors", which are a model's "embeddings" or the output of a reducer
        ("reduced"), or one of these only; the "texts" themselves, a list, on which the result is the same whatever
        the model; or texts and their "encoder", which the clusterer trains: `build` then makes a
        `traube.components._deep.DeepClusterer`.
    version : str
        Version of the component's own code. Raise it when the same inputs would give another result: the component's
        cells are computed again.
    libraries : iterable of str
        Packages that compute the result; after an upgrade of one, the component's cells are computed again.
    identity : bool
        True for a reducer whose points are the vectors themselves: nothing is computed or stored.
    place : callable
        Places new vectors for a reducer; by default among their nearest neighbors.
    assign : callable
        Assigns new points to clusters for a clusterer; by default to the nearest center.
    types : mapping
        Types of some parameters for pydantic, such as `Annotated[int, Field(ge=1)]`: a value out of its limits is
        refused before hours of work.
    seconds : tuple of float
        Seconds of a core for each text and cluster, of dense and of sparse vectors, where the number of clusters
        decides the run time; 0 elsewhere.
    pace : float
        Further seconds of a core for each text, roughly: a run announces its duration beforehand.
    by_distance : callable
        Returns, from the parameters, the arguments that build the clusterer where distances are given in place of
        vectors; None if the clusterer cannot work on distances.

    Examples
    --------
    >>> from traube.components import get_clusterer
    >>> kmeans = get_clusterer("kmeans")
    >>> kmeans.n_clusters, kmeans.seeded
    ('given', True)
    """

    name: str
    build: Callable[..., Any]
    params: Mapping[str, Any] = field(default_factory=dict)
    n_clusters: NClusters = "found"
    finds_k: bool = False
    reports_layers: bool = False
    seeded: bool = False
    dense: bool = False
    quadratic: bool | Callable[[Mapping[str, Any]], bool] = False
    input_kind: InputKind = "vectors"
    version: str = "1"
    libraries: tuple[str, ...] = NUMERICAL
    identity: bool = False
    place: Place = place_by_neighbors
    assign: Assign = assign_to_nearest_center
    types: Mapping[str, Any] = field(default_factory=dict)
    seconds: tuple[float, float] = (0.0, 0.0)
    pace: float = PACE
    by_distance: Callable[[Mapping[str, Any]], Mapping[str, Any] | None] = lambda params: None

    def __repr__(self) -> str:
        return f"Component('{self.name}')"

    @property
    def fitted_on(self) -> str:
        """Input on which the estimator is fitted: "vectors", "texts" or, with an "encoder", texts."""
        return self.input_kind if self.input_kind in ("texts", "encoder") else "vectors"

    def estimate_seconds(self, n: int, k: int | None, is_sparse: bool) -> float:
        """Return the approximate seconds on one core for n texts in k clusters, as far as they are known."""
        return n * (k or 0) * self.seconds[is_sparse] if self.n_clusters == "given" else 0.0

    def estimator(self, params: Mapping[str, Any], seed: int | None, **more: Any) -> Any:
        """Return the estimator, not fitted, with its seed if the estimator takes one."""
        arguments = {key: value for key, value in params.items() if key != "k" or not self.chooses_k(params)}
        return self.build(**arguments, **({"random_state": seed} if self.seeded else {}), **more)

    def holds_distances(self, params: Mapping[str, Any]) -> bool:
        """Return whether the component needs 8 n^2 bytes with these parameters."""
        return self.quadratic if isinstance(self.quadratic, bool) else self.quadratic(params)

    def chooses_k(self, params: Mapping[str, Any]) -> bool:
        """Return whether `k: auto` is requested, and is not by chance a parameter of the component itself."""
        return self.n_clusters == "given" and "k" not in self.params and params.get("k") == AUTO

    @property
    def numerics(self) -> dict[str, str]:
        """Code that computes the component's result, with versions.

        It is hashed into every cell of the component, so that a fix of one component recomputes that component only.
        """
        source = f"{self.build.__module__}.{getattr(self.build, '__qualname__', type(self.build).__qualname__)}"
        origin = {} if source.startswith("traube.") else {"class": source}  # another class of one's own is another one
        return {"version": self.version, **origin, **get_versions(self.libraries)}

    def resolve_by_distance(self, params: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Return the parameters with which the clusterer works on distances; refuse it if there are none."""
        suited = self.by_distance(self.resolve(params))
        if suited is None:
            raise Unsupported(f"{self.name} works on {self.fitted_on}, not on distances")
        return suited

    def resolve(self, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return all parameters: the defaults, with `params` in place of some."""
        given = dict(params or {})
        for key in given:
            if key in GIVEN:
                raise Invalid(f"{self.name}: '{key}' is no parameter: it comes from the split's classes or the seed")
            if key not in self.params and not self.chooses_k({key: given[key]}):
                raise unknown(f"parameter of {self.name}", str(key), self.params)
        typed = {key: _convert_like(self.params.get(key), value) for key, value in given.items()}
        plain = _make_plain(self.name, {**self.params, **typed})
        for key in typed.keys() & self.types.keys():
            try:
                _make_adapter(self.types[key]).validate_python(plain[key], strict=True)
            except ValidationError as error:
                said = " or ".join(dict.fromkeys(fault["msg"] for fault in error.errors()))
                raise Invalid(f"{self.name}: {key} cannot be {str(plain[key])[:60]!r}: {said}") from None
        return plain


@dataclass(frozen=True)
class LazyEstimator:
    """Builder of an estimator whose class is imported at the first use: plans and lists need names and defaults only."""

    module: str
    name: str

    def __call__(self, **params: Any) -> Any:
        """Import the estimator and return an instance with these parameters."""
        return getattr(import_module(self.module), self.name)(**params)


@cache
def _make_adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)  # a third of a millisecond, and params.yaml alone has two hundred values


def _convert_like(default: Any, value: Any) -> Any:
    """Return a number in the type of the default, so that 1 and 1.0 are one parameter."""
    if isinstance(default, float) and type(value) is int:
        return float(value)
    if type(default) is int and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


METHODS = Registrations("traube.components._registered", "methods")
REDUCERS: Registry[Component] = Registry(METHODS)
CLUSTERERS: Registry[Component] = Registry(METHODS)


def get_reducer(reducer: str | Component) -> Component:
    """Return the registered reducer of a name; a component is returned unchanged.

    Parameters
    ----------
    reducer : str or Component
        Name of a registered reducer, or any component.

    Returns
    -------
    Component
        The reducer.

    Raises
    ------
    Unknown
        If there is no such reducer.

    Examples
    --------
    >>> from traube.components import get_reducer
    >>> get_reducer("umap").seeded
    True
    """
    return _get("reducer", REDUCERS, reducer)


def get_clusterer(clusterer: str | Component) -> Component:
    """Return the registered clusterer of a name; a component is returned unchanged.

    Parameters
    ----------
    clusterer : str or Component
        Name of a registered clusterer, or any component.

    Returns
    -------
    Component
        The clusterer.

    Raises
    ------
    Unknown
        If there is no such clusterer.

    Examples
    --------
    >>> from traube.components import get_clusterer
    >>> get_clusterer("hdbscan").n_clusters
    'found'
    """
    return _get("clusterer", CLUSTERERS, clusterer)


def register_reducer(
    name: str,
    build: Callable[..., Any],
    params: Mapping[str, Any] | None = None,
    *,
    seeded: bool | None = None,
    dense: bool = True,
    version: str = "1",
    libraries: Iterable[str] = NUMERICAL,
    identity: bool = False,
    place: Place | None = None,
    types: Mapping[str, Any] | None = None,
    pace: float = PACE,
    replace: bool = False,
) -> Component:
    """Add a reducer: anything that makes an estimator with `fit_transform(X) -> [n, m]`.

    Parameters
    ----------
    name : str
        Lower-case letters, digits and `_ + . -`; must not be taken.
    build : callable
        An estimator's class, or a function that returns an estimator.
    params : mapping, optional
        Parameters that may be set, with defaults. By default those of `build`'s signature that have one.
    seeded : bool, optional
        True if `build` takes `random_state`. By default as its signature says.
    dense : bool, default=True
        Make sparse vectors dense for the reducer.
    version : str, default="1"
        Version of the reducer's own code; with another one its cells are computed again.
    libraries : iterable of str, default=("numpy", "scipy", "scikit-learn")
        Packages that compute the result; after an upgrade of one its cells are computed again.
    identity : bool, default=False
        True if the points are the vectors themselves: nothing is computed or stored.
    place : callable, optional
        Places new vectors: a function of `traube.components._new_points` or one like it. By default among their
        neighbors.
    types : mapping, optional
        Types of some parameters for pydantic, such as `Annotated[int, Field(ge=1)]`.
    pace : float, default=5e-5
        Approximate seconds of a core for each text.
    replace : bool, default=False
        Replace a component with the same name, such as in a notebook's cell that is run again.

    Returns
    -------
    Component
        The registered reducer.

    Raises
    ------
    TraubeError
        If the name is taken or no name, or a default is no plain value.

    Examples
    --------
    >>> from sklearn.decomposition import FastICA
    >>> register_reducer("ica", FastICA, {"n_components": 2}, replace=True).seeded
    True
    """
    accepted = inspect.signature(build).parameters
    component = Component(
        name=name,
        build=build,
        params=_make_plain(name, _read_defaults(accepted) if params is None else params),
        seeded="random_state" in accepted if seeded is None else seeded,
        dense=dense,
        version=version,
        libraries=tuple(libraries),
        identity=identity,
        place=place or (keep_vectors if identity else place_by_neighbors),
        types=types or {},
        pace=pace,
    )
    return _register(REDUCERS, component, replace)


def register_clusterer(
    name: str,
    build: Callable[..., Any],
    params: Mapping[str, Any] | None = None,
    *,
    n_clusters: NClusters | None = None,
    finds_k: bool = False,
    reports_layers: bool = False,
    seeded: bool | None = None,
    dense: bool = True,
    quadratic: bool | Callable[[Mapping[str, Any]], bool] = False,
    input_kind: InputKind = "vectors",
    version: str = "1",
    libraries: Iterable[str] = NUMERICAL,
    assign: Assign = assign_to_nearest_center,
    types: Mapping[str, Any] | None = None,
    seconds: tuple[float, float] = (0.0, 0.0),
    by_distance: Callable[[Mapping[str, Any]], Mapping[str, Any] | None] = lambda params: None,
    replace: bool = False,
) -> Component:
    """Add a clusterer: anything that makes an estimator with `fit_predict(X) -> int [n]`, where -1 is noise.

    Parameters
    ----------
    name : str
        Lower-case letters, digits and `_ + . -`; must not be taken.
    build : callable
        An estimator's class, or a function that returns an estimator.
    params : mapping, optional
        Parameters that may be set, with defaults. By default those of `build`'s signature that have one.
    n_clusters : {"given", "optional", "found"}, optional
        Whether `build` takes `n_clusters`, as in `Component`. By default "given" if its signature has it, else "found".
    finds_k : bool, default=False
        True if tables report the number of clusters that the clusterer finds.
    reports_layers : bool, default=False
        True if the fitted estimator has nested layers, as in `Component`.
    seeded : bool, optional
        True if `build` takes `random_state`. By default as its signature says.
    dense : bool, default=True
        Make sparse vectors dense for the clusterer.
    quadratic : bool or callable, default=False
        True if the clusterer holds all distances, 8 n^2 bytes; or a function that says so of its parameters.
    input_kind : {"vectors", "reduced", "embeddings", "texts", "encoder"}, default="vectors"
        Input on which the clusterer makes sense, as in `Component`. One that takes texts makes an estimator with
        `fit_predict(texts) -> int [n]`.
    version : str, default="1"
        Version of the clusterer's own code; with another one its cells are computed again.
    libraries : iterable of str, default=("numpy", "scipy", "scikit-learn")
        Packages that compute the result; after an upgrade of one its cells are computed again.
    assign : callable, optional
        Assigns new points to clusters: a function of `traube.components._new_points` or one like it. By default to the
        nearest center.
    types : mapping, optional
        Types of some parameters for pydantic, such as `Annotated[int, Field(ge=1)]`.
    seconds : tuple of float, default=(0.0, 0.0)
        Seconds of a core for each text and cluster, of dense and of sparse vectors.
    by_distance : callable, optional
        Returns, from the parameters, the arguments that build the clusterer where distances are given in place of
        vectors. By default the clusterer cannot work on distances.
    replace : bool, default=False
        Replace a component with the same name, such as in a notebook's cell that is run again.

    Returns
    -------
    Component
        The registered clusterer.

    Raises
    ------
    TraubeError
        If the name is taken or no name, or a default is no plain value.

    Examples
    --------
    >>> from sklearn.cluster import Birch
    >>> register_clusterer("birch", Birch, {"threshold": 0.5}, replace=True).n_clusters
    'given'
    """
    accepted = inspect.signature(build).parameters
    component = Component(
        name=name,
        build=build,
        params=_make_plain(name, _read_defaults(accepted) if params is None else params),
        n_clusters=n_clusters or ("given" if "n_clusters" in accepted else "found"),
        finds_k=finds_k,
        reports_layers=reports_layers,
        seeded="random_state" in accepted if seeded is None else seeded,
        dense=dense,
        quadratic=quadratic,
        input_kind=input_kind,
        version=version,
        libraries=tuple(libraries),
        assign=assign,
        types=types or {},
        seconds=seconds,
        by_distance=by_distance,
    )
    return _register(CLUSTERERS, component, replace)


def _get(kind: str, registry: Mapping[str, Component], component: str | Component) -> Component:
    if isinstance(component, Component):
        return component
    if component not in registry:
        raise unknown(kind, component, registry)
    return registry[component]


def _register(registry: Registry[Component], component: Component, replace: bool) -> Component:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_+.-]*", component.name):
        raise Invalid(
            f"'{component.name}' is no name for a method's component: use lower-case letters, digits and _ + . -"
        )
    # One name space for both: a protocol sets parameters by the component's name alone.
    taken = component.name in REDUCERS or component.name in CLUSTERERS
    if taken and not (replace and component.name in registry):
        raise Conflict(f"'{component.name}' is taken: choose another name (or, of the same kind, give replace=True)")
    registry[component.name] = component
    return component


def _read_defaults(accepted: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
    return {key: p.default for key, p in accepted.items() if p.default is not p.empty and key not in GIVEN}


def _make_plain(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the parameters as JSON has them: they are hashed, stored and shown."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(params), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise Invalid(f"{name}: parameters must be numbers, texts, truth values, lists or null ({error})") from None
    return plain
