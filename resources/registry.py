"""The MLflow model registry: a servable clustering per task.

The registered model `traube-<task>` has the aliases `champion` and `challenger`. A version is one (model, fingerprint,
method) on one version of the task's data.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import dagster as dg
from pydantic import Field, PrivateAttr

from resources.experiment import SERVING, connect, default_uri, get_task_page
from resources.removal import mark_removed
from resources.served_artifact import write_artifact
from resources.tracking import name_logged_model
from traube._core import paths
from traube._core.errors import Missing, TraubeError, Unknown, unknown
from traube._core.hashing import digest
from traube._storage import open_storage
from traube.comparison.verdict import format_score, to_points
from traube.models.pins import link_copy, pin, unpin

if TYPE_CHECKING:
    from traube._grouping.served import Served
    from traube.comparison.candidates import Candidate
    from traube.comparison.champions import Champions
    from traube.comparison.promotion import Decision

CHAMPION, CHALLENGER = "champion", "challenger"
MLMODEL = "MLmodel"  # MLflow's file about an artifact
REJECTED = "traube.rejected"  # tag of a version that a person rolled back
KEPT = "traube.keep"  # tag by which a person keeps a version that nobody serves
LOGGED = "logged_model"  # tag with the id of the logged model, which MLflow's versions do not give back
BY_HAND = "by_hand"  # tag with the day on which a person made a version the champion
BEFORE = "reason_before"  # tag with the reason that stood there before
HISTORY = "traube.champions"  # tag of a registered model: its champions' versions, the present one last
IDENTITY = ("task", "protocol", "metric", "level", "model", "fingerprint", "method", "data_version")


def registered_name(task: str) -> str:
    """Return the name of a task's champion in MLflow."""
    return f"traube-{task}"


class RegistryResource(dg.ConfigurableResource):
    """Reads and moves champions and challengers."""

    uri: str = Field(default="", description="by default MLFLOW_TRACKING_URI, or mlflow.db below TRAUBE_HOME")
    _clients: dict[str, Any] = PrivateAttr(default_factory=dict)  # by address

    def client(self) -> Any:
        """Return MLflow's client; a publication asks for it some twenty times."""
        uri = self.uri or default_uri()
        if uri not in self._clients:
            self._clients[uri] = connect(uri, SERVING).client
        return self._clients[uri]

    def find_version(self, task: str, alias: str) -> dict[str, str] | None:
        """Return the tags of the version with an alias, and its number as `version`; None if there is none."""
        from mlflow.exceptions import MlflowException

        try:
            version = self.client().get_model_version_by_alias(registered_name(task), alias)
        except MlflowException:
            return None
        return _read_tags(version)

    def register(self, candidate: "Candidate", freeze: "Callable[[], Served]") -> str:
        """Register a candidate for serving, and return its version: a new one, or the existing one."""
        import mlflow
        from mlflow.exceptions import MlflowException

        from traube._grouping import served as serving

        experiment = connect(self.uri or default_uri(), SERVING)
        client = experiment.client
        name, identity = registered_name(candidate.task), {key: str(getattr(candidate, key)) for key in IDENTITY}
        key = digest(identity)
        versions = client.search_model_versions(f"name = '{name}' and tag.`traube.key` = '{key}'")
        if versions:
            return str(versions[0].version)
        served = freeze()
        served.card = pin(key, served.card, served.fingerprint, candidate.cells)
        mlflow.set_tracking_uri(self.uri or default_uri())
        run_name = f"serve {candidate.task}: {candidate.name}"
        run = client.create_run(experiment.id, run_name=run_name, tags={"traube.serves": key})
        logged = client.create_logged_model(
            experiment.id, name_logged_model(candidate.task, candidate.model), source_run_id=run.info.run_id
        )
        with TemporaryDirectory(prefix="traube-") as folder:
            # code and weights come along with a champion: of what may never serve, numbers and pinned weights are enough
            serving.save(served, Path(folder) / "artifacts" / "served")
            client.log_model_artifacts(logged.model_id, folder)
        client.finalize_logged_model(logged.model_id, "READY")
        client.set_terminated(run.info.run_id)
        with suppress(MlflowException):  # it is there already
            client.create_registered_model(name, description=_describe_model(candidate.task))
        tags = {
            **identity,
            "weights": served.fingerprint,
            "key": key,
            "score": repr(candidate.mean),
            LOGGED: logged.model_id,
        }
        tags = {f"traube.{tag}": value for tag, value in tags.items() if value}
        made = client.create_model_version(
            name,
            logged.artifact_location,
            run.info.run_id,
            tags=tags,
            model_id=logged.model_id,
            description=_describe_version({**identity, "score": repr(candidate.mean)}),
        )
        return str(made.version)

    def read_champions(self) -> "Champions":
        """Return the champion of each task with its next challenger, and the models that were champions before."""
        from traube.comparison.champions import Champion, Champions

        client, now, models = self.client(), [], {}
        names = ("model", "method", "version", "since", "against", BY_HAND)
        for task in sorted({task for task, _ in self.list_served()}):
            champion, challenger = (self.find_version(task, alias) or {} for alias in (CHAMPION, CHALLENGER))
            served = champion or challenger
            now.append(
                Champion(
                    **{name: champion.get(name, "") for name in names},
                    task=task,
                    chosen=champion.get("reason", ""),
                    score=_to_points(champion.get("score")),
                    measure=describe_measure(*(served.get(tag, "") for tag in ("level", "metric", "protocol"))),
                    by=_to_points(champion.get("difference")),
                    challenger=" with ".join(filter(None, [challenger.get("model"), challenger.get("method")])),
                    challenger_score=_to_points(challenger.get("score")),
                    reason=challenger.get("reason", ""),
                )
            )
            versions = client.search_model_versions(f"name = '{registered_name(task)}'")
            model_of = {str(version.version): version.tags.get("traube.model", "") for version in versions}
            models[task] = tuple(dict.fromkeys(model_of.get(number, "") for number in self._read_history(task)))
        return Champions(now=tuple(now), models=models)

    def note_champions(self) -> "Champions":
        """Store the champions where the leaderboard, pages and other nodes find them without a registry; return them."""
        champions = self.read_champions()
        open_storage(paths.home()).save_document(champions)
        return champions

    def load_champion(self, task: str, version: str | None = None) -> "Served":
        """Return the clustering that is served for a task, or that of a version; runs no stored code."""
        import mlflow

        from traube._grouping import served as serving

        self._check_registered(task)
        version = version or self._require_version(task, CHAMPION)
        mlflow.set_tracking_uri(self.uri or default_uri())
        with TemporaryDirectory(prefix="traube-") as folder:
            at = mlflow.artifacts.download_artifacts(f"models:/{registered_name(task)}/{version}", dst_path=folder)
            served = Path(at) / "artifacts" / "served"
            source = str(self.client().get_model_version(registered_name(task), version).source)
            if not served.is_dir():  # MLflow notes whole paths
                raise Missing(f"{source}: the champion's files are missing; restore a backup to this path")
            try:
                return serving.load(served)
            except TraubeError as error:  # of the copy, which is gone by now
                raise type(error)(str(error).replace(str(Path(at)), source)) from error

    def require_champion(self, task: str) -> str:
        """Return the version of a task's champion; raise an error that names what makes one."""
        self._check_registered(task)
        return self._require_version(task, CHAMPION)

    def write_artifact(self, task: str, number: str | None = None) -> str:
        """Write what MLflow serves of a version, by default the challenger, of which only the clustering is there.

        That is so of a version that only challenged, and of one that a backup brought. Weights come along, if they are pinned.
        Returns the version.
        """
        self._check_registered(task)
        number = number or self._require_version(task, CHALLENGER)
        self._read_version(task, number)
        self._write_artifact(task, number)
        return number

    def _write_artifact(self, task: str, number: str) -> None:
        import mlflow
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        uri, version = self.uri or default_uri(), self.client().get_model_version(registered_name(task), number)
        # by its address, since MLflow remembers for a whole process where a logged model was
        artifact = get_artifact_repository(version.source, tracking_uri=uri)
        is_own = f"traube.{LOGGED}" in version.tags
        if not is_own or any(file.path == MLMODEL for file in artifact.list_artifacts()):
            return
        mlflow.set_tracking_uri(uri)
        with TemporaryDirectory(prefix="traube-") as folder:
            try:
                at = Path(mlflow.artifacts.download_artifacts(f"models:/{version.name}/{number}", dst_path=folder))
            except OSError:  # it lies where MLflow noted it, which is not here
                return
            clustering = at / "artifacts" / "served"
            if not clustering.is_dir():
                return
            weights = _find_weights(at)
            new, last = Path(folder) / "model", Path(folder) / "last"
            about = {"run_id": version.run_id, "model_id": version.tags[f"traube.{LOGGED}"]}
            write_artifact(new, clustering, weights, **about)
            last.mkdir()
            (new / MLMODEL).rename(last / MLMODEL)  # it says that all is there
            for part in (new, last):
                artifact.log_artifacts(str(part))
            if weights and weights.parent == paths.home() / "weights" and urlsplit(version.source).scheme == "file":
                link_copy(weights.name, _locate(version.source) / "artifacts" / "weights")

    def list_served(self) -> list[tuple[str, str]]:
        """Return the task and the version of each champion and challenger."""
        models = self._find_models()
        return [(task, str(version)) for task, model in models.items() for version in model.aliases.values()]

    def _find_models(self) -> dict[str, Any]:
        """Return the registered models by task."""
        prefix = registered_name("")
        models = self.client().search_registered_models(f"name LIKE '{prefix}%'")
        return {model.name.removeprefix(prefix): model for model in models}

    def explain(self, task: str, version: str, decision: "Decision") -> None:
        """Record on a version the decision about it, and the reason."""
        tags = {"decision": decision.outcome, "reason": decision.reason}
        of_verdict = ("against", "difference", "interval", "p", "comparisons", "effect", "test", "verdict")
        tags |= dict.fromkeys((*of_verdict, "verdict_date", BY_HAND, BEFORE), "")
        if (verdict := decision.verdict) and math.isfinite(verdict.error):
            tags |= {
                "against": verdict.b,
                "difference": f"{verdict.difference:+.6f}",
                "interval": f"{verdict.low:+.6f} to {verdict.high:+.6f}",
                "p": f"{verdict.p:.3g}",
                "comparisons": str(verdict.comparisons),
                "effect": f"{verdict.effect:.3f}",
                "test": verdict.test,
                "verdict": verdict.id,
                "verdict_date": datetime.now(UTC).date().isoformat(),
            }
        self.tag(task, version, tags)

    def tag(self, task: str, version: str, tags: Mapping[str, str]) -> None:
        """Set tags of a version, each below `traube.`; an empty value removes a tag."""
        client, name = self.client(), registered_name(task)
        present = client.get_model_version(name, version).tags
        for tag, value in ((f"traube.{tag}", value) for tag, value in tags.items()):
            if value:
                client.set_model_version_tag(name, version, tag, value)
            elif tag in present:
                client.delete_model_version_tag(name, version, tag)

    def challenge(self, task: str, version: str) -> None:
        """Make a version the challenger of a task's champion."""
        self.client().set_registered_model_alias(registered_name(task), CHALLENGER, version)

    def describe_change(self, task: str, version: str | None = None) -> str:
        """Return what a promotion would change: from, to, scores, and what the test says of the two."""
        self._check_registered(task)
        new = self._read_version(task, version or self._require_version(task, CHALLENGER))
        held = self.find_version(task, CHAMPION)
        sides = [
            f"version {side['version']}, {side['model']} with {side['method']}: {format_score(float(side['score']))}"
            if side
            else "no champion"
            for side in (held, new)
        ]
        measure = describe_measure(*(new.get(tag, "") for tag in ("level", "metric", "protocol")))
        tested = f"; {new['reason']}" if new.get("reason") else ""
        return f"{registered_name(task)}: {sides[0]} -> {sides[1]} ({measure}){tested}"

    def promote(self, task: str, version: str | None = None, by_hand: bool = True) -> str:
        """Make a version, by default the challenger, the champion, and return the version.

        The previous champion is remembered, and so is whether a person decided.
        """
        self._check_registered(task)
        version = version or self._require_version(task, CHALLENGER)
        client, name = self.client(), registered_name(task)
        self._read_version(task, version)
        history = self._read_history(task)
        if history[-1:] == [version]:
            self._set_champions(task, history)
        else:
            self._set_champions(task, [*history, version], by_hand="promoted" if by_hand else "")
        client.delete_model_version_tag(name, version, REJECTED)
        challenger = self.find_version(task, CHALLENGER)
        if challenger and challenger["version"] == version:
            client.delete_registered_model_alias(name, CHALLENGER)
        return version

    def renew(self, task: str, version: str) -> None:
        """Replace the champion by the same clustering, served from the present data."""
        before, renewed = self.find_version(task, CHAMPION) or {}, "the same champion, on new data"
        reason = f"{renewed}; chosen by hand on {before[BY_HAND]}" if BY_HAND in before else renewed
        self.tag(task, version, {"decision": "renewed", "reason": reason, BY_HAND: before.get(BY_HAND, "")})
        self._set_champions(task, [*self._read_history(task)[:-1], version], before.get("since", ""))

    def rollback(self, task: str) -> str:
        """Make the champion before this one champion again, and return its version."""
        self._check_registered(task)
        history = self._read_history(task)
        if len(history) < 2:
            raise Missing(f"{registered_name(task)} has had no other champion to go back to")
        self._set_champions(task, history[:-1], by_hand="restored")
        self.client().set_model_version_tag(registered_name(task), history[-1], REJECTED, "rolled back")
        return history[-2]

    def list_rejected(self, task: str) -> list[dict[str, str]]:
        """Return the versions that people rolled back, which are no challengers anymore."""
        condition = f"name = '{registered_name(task)}' and tag.`{REJECTED}` = 'rolled back'"
        return [_read_tags(version) for version in self.client().search_model_versions(condition)]

    def _note_person(self, task: str, version: str, what: str) -> None:
        """Record on a version that a person made it the champion, beside what the tests said of it."""
        today, tags = datetime.now(UTC).date().isoformat(), self._read_version(task, version)
        before = tags.get(BEFORE, "") if BY_HAND in tags else tags.get("reason", "")
        reason = f"{what} by hand on {today}" + (f"; before: {before}" if before else "")
        self.tag(task, version, {"decision": "by hand", "reason": reason, BY_HAND: today, BEFORE: before})

    def _check_registered(self, task: str) -> None:
        """Refuse a task without a registered model; the error names near ones, and what makes one."""
        tasks = self._find_models()
        if task not in tasks:
            raise Unknown(
                f"{unknown('task with a registered model', task, tasks)} (`traube run -t {task}` registers one, where "
                f"`tasks` of params.yaml lists {task} and it has labels)"
            )

    def _require_version(self, task: str, alias: str) -> str:
        if model_version := self.find_version(task, alias):
            return model_version["version"]
        raise Missing(f"{registered_name(task)} has no {alias}; `traube run` makes one")

    def forget_challengers(self, task: str, kept: int) -> None:
        """Delete the versions of a task that only ever challenged, but the newest ones and those tagged `traube.keep`."""
        client, name = self.client(), registered_name(task)
        served = {number for named, number in self.list_served() if named == task}
        lasting = served | {*self._read_history(task)}
        old = [
            version
            for version in sorted(client.search_model_versions(f"name = '{name}'"), key=lambda v: -int(v.version))
            if str(version.version) not in lasting and not {REJECTED, KEPT} & version.tags.keys()
        ]
        for version in old[max(0, kept - 1) :]:  # the present challenger is one of them
            client.delete_model_version(name, version.version)
            unpin(version.tags["traube.key"])
            if f"traube.{LOGGED}" not in version.tags:  # somebody else's
                continue
            mark_removed(connect(self.uri or default_uri(), SERVING), [version.run_id])

    def _read_version(self, task: str, number: str) -> dict[str, str]:
        """Return the tags of a version, and its number as `version`."""
        name = registered_name(task)
        versions = {
            str(version.version): version for version in self.client().search_model_versions(f"name = '{name}'")
        }
        if number not in versions:
            raise unknown(f"version of {name}", number, versions)
        return _read_tags(versions[number])

    def _set_champions(self, task: str, versions: Sequence[str], since: str = "", by_hand: str = "") -> None:
        """Make the last one of some versions the champion; the others are those before it.

        `by_hand` is what a person did with it, if a person decided.
        """
        client, name = self.client(), registered_name(task)
        self._write_artifact(task, versions[-1])
        if by_hand:
            self._note_person(task, versions[-1], by_hand)
        self.tag(task, versions[-1], {"since": since or datetime.now(UTC).isoformat(timespec="minutes")})
        client.set_registered_model_tag(name, HISTORY, json.dumps(versions))
        client.set_registered_model_alias(name, CHAMPION, versions[-1])
        champion = self._read_version(task, versions[-1])
        client.update_registered_model(name, _describe_model(task, champion.get(BY_HAND, "")))
        if "score" in champion:  # it is not somebody else's
            client.update_model_version(name, versions[-1], _describe_version(champion))

    def _read_history(self, task: str) -> list[str]:
        from mlflow.exceptions import MlflowException

        try:
            tags = self.client().get_registered_model(registered_name(task)).tags
        except MlflowException:
            return []
        return list(json.loads(tags.get(HISTORY, "[]")))


def _describe_model(task: str, by_hand: str = "") -> str:
    """Return what people read beside a registered model; `by_hand` is the day on which a person chose its champion."""
    chosen = f"chosen by hand on {by_hand}" if by_hand else "chosen by paired tests"
    return (
        f"The clustering that serves the texts of {task}: the version `champion`, {chosen} (`traube champions`); "
        f"the version `challenger` is the best newcomer. [All of {task}]({get_task_page(task)}), while `traube dev` runs."
    )


def _describe_version(tags: Mapping[str, str]) -> str:
    """Return what people read beside a version: what it is, its score, and that a person made it the champion."""
    measure = describe_measure(*(tags.get(tag, "") for tag in ("level", "metric", "protocol")))
    by_hand = f"; made champion by hand on {tags[BY_HAND]}" if tags.get(BY_HAND) else ""
    return f"{tags['model']} with {tags['method']}: {format_score(float(tags['score']))} ({measure}){by_hand}"


def describe_measure(level: str, metric: str, protocol: str) -> str:
    """Return what a score of the registry is a score of; without a level, the mean over all splits, so that levels weigh by these."""
    return f"{level} {metric}, {protocol}" if level else f"{metric}, mean over the splits of all levels, {protocol}"


def _find_weights(version: Path) -> Path | None:
    """Return the weights of a version's clustering: those that are pinned, or that lie in its folder; None without any."""
    from traube._grouping import served as serving

    weights = version / "artifacts" / "weights"  # a promotion that was killed may have left them in part
    with suppress(TraubeError):  # of a backup without pins
        pinned = Path(serving.load(version / "artifacts" / "served").card.model or "")
        weights = pinned if pinned.parent == paths.home() / "weights" else weights
    return weights if weights.is_dir() else None


def _locate(source: str) -> Path:
    """Return the folder of a version that lies on this machine."""
    return Path(url2pathname(urlsplit(source).path))


def _to_points(value: str | None) -> float | None:
    return to_points(float(value)) if value else None


def _read_tags(version: Any) -> dict[str, str]:
    tags = {key.removeprefix("traube."): value for key, value in version.tags.items()}
    return {**tags, "version": str(version.version)}
