"""Survey of what is at hand: raw data, weights, and what the storage has of both. `traube._pipeline.plan` compares it."""

from collections.abc import Iterable, Mapping

from traube._core.errors import TraubeError, Unknown
from traube._pipeline.kinds import kind_of
from traube._pipeline.lookup import Lookup
from traube._pipeline.plan import AtHand, Plan
from traube._pipeline.request import Request
from traube._storage import Storage
from traube.models import Model
from traube.tasks import get_source
from traube.tasks.stored import Manifest, get_manifest, is_valid, not_read


def plan(request: Request, storage: Storage) -> Plan:
    """Compare what is requested with what is at hand."""
    return Plan.of(request, survey(request, storage))


def survey(request: Request, storage: Storage) -> AtHand:
    """Return the requested tasks whose stored tables are current, the usable models, and the stored cells."""
    new, unavailable = find_not_ingested(request.tasks, storage)
    models, unusable = find_usable_models(request)
    known = (name for name in dict.fromkeys(request.tasks) if name not in new and name not in unavailable)
    tasks = {name: manifest for name in known if (manifest := get_manifest(storage, name))}
    return AtHand(tasks, models, *_stored_cells(tasks, storage), new, unavailable | unusable)


def plan_stored(request: Request, model: Model, storage: Storage) -> Plan:
    """Compare what is requested of stored tasks, even if their raw data has changed since, and a model with the stored cells."""
    manifests = {}
    for name in request.tasks:
        if (manifest := get_manifest(storage, name)) is None:
            raise not_read(name)
        manifests[name] = manifest
    return Plan.of(request, AtHand(manifests, {model.name: model}, *_stored_cells(manifests, storage)))


def _stored_cells(tasks: Mapping[str, Manifest], storage: Storage) -> tuple[set[str], set[str]]:
    """Return the ids of the cells that need no work, and of those that are clustered and not scored."""
    finished, clustered = set[str](), set[str]()
    for task, manifest in tasks.items():
        done = storage.find_finished(task, kind_of(manifest.card).scoring_version)
        finished |= done
        clustered |= storage.find_clustered(task, done)
    return finished, clustered


def find_not_ingested(tasks: Iterable[str], storage: Storage) -> tuple[list[str], dict[str, str]]:
    """Return the tasks whose stored tables are absent, corrupt or older than the raw data; and why others are unavailable."""
    new, unavailable = [], {}
    for name in dict.fromkeys(tasks):
        source = get_source(name, None)
        if reason := source.missing():
            unavailable[name] = reason
        elif get_raw_version(name, storage) != source.raw_version():
            new.append(name)
    return new, unavailable


def get_raw_version(task: str, storage: Storage) -> str | None:
    """Return the version of the raw data that a task's stored tables were read from; None if they are absent or corrupt."""
    manifest = get_manifest(storage, task)
    return manifest.raw_version if manifest is not None and is_valid(storage, task) else None


def unavailable(request: Request, storage: Storage, lookup: Lookup | None = None) -> dict[str, str]:
    """Return the reason by name of a clustering task or a model that is requested and cannot be had here."""
    ranked = (task for task in request.tasks if kind_of(get_source(task, None).card).is_ranked)
    reasons = find_not_ingested(ranked, storage)[1]
    return reasons | find_usable_models(request, lookup)[1]


def find_usable_models(request: Request, lookup: Lookup | None = None) -> tuple[dict[str, Model], dict[str, str]]:
    """Return the models whose weights are here and valid; and why others cannot be used.

    Raises
    ------
    Unknown
        If a requested name is that of no model, such as a misspelled one.
    """
    models, unusable, lookup = {}, {}, lookup or Lookup()
    for name in dict.fromkeys(request.models):
        try:
            models[name] = lookup.usable(name, request.protocol.precision)
        except Unknown:
            raise
        except TraubeError as error:
            unusable[name] = str(error)
    return models, unusable
