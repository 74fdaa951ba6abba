"""Reddit: German submissions by subreddit, as the German benchmark draws them (section 2.2).

The authors published ids, not texts: everybody fetches the texts with credentials of their own, as Reddit's terms ask.
"""

import json
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from typing_extensions import override

from traube._core.errors import Malformed, Unavailable
from traube._core.files import append_line, locked
from traube._core.inputs import parse_json, read_bytes
from traube._core.paths import raw
from traube.papers.german import TASKS
from traube.tasks._reading import find_file, read_lines
from traube.tasks._source import Source, catalogue_card
from traube.tasks._splitting import SEED, make_rng, shuffle, split_whole
from traube.tasks._task import TaskCard

Kind = Literal["s2s", "p2p"]
Way = Literal["right", "paper"]

SPLITS = 10
FEWEST, MOST = 10, 50  # subreddits of a split

LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
GREEDY_LINK = re.compile(r"\[(.*)\]\(.*\)")  # the authors': up to the last bracket of the line
URL = re.compile(r"https?://\S+")

ID, SECRET, AGENT = "REDDIT_CLIENT_ID", "REDDIT_CLIENT_SECRET", "REDDIT_USER_AGENT"
BATCH = 100  # ids that the API takes at once


class Reddit(Source):
    """Titles, or titles and texts, of the submissions that still exist.

    The tasks called `..._paper` hold the defects of the authors' scripts: a link's pattern that swallows what lies
    between two links of a line, submissions without a text dropped from P2P, and each split's subreddits drawn from the
    order that the split before left. (Their rows were shuffled without a seed: that order cannot be had again.)
    """

    def __init__(self, kind: Kind, way: Way) -> None:
        name = f"reddit_{kind}_paper" if way == "paper" else f"reddit_{kind}"
        super().__init__(catalogue_card(TASKS, name, TaskCard))
        self.kind, self.way = kind, way

    @override
    def files(self) -> list[Path]:
        return [raw() / "reddit_de" / "submissions.jsonl"]

    @override
    def missing(self) -> str | None:
        if not self.files()[0].is_file():
            return f"{super().missing()}; with {ID} and {SECRET} in the environment `traube run --task {self.name}` fetches it"
        left = len(set(_ids()) - set(_read_fetched(self.files()[0])))
        return f"{left} submissions are still to be fetched: `traube run --task {self.name}`" if left > 0 else None

    @override
    def fetch(self) -> None:
        if self.missing() is None:
            return
        if not _ids():
            origin = "https://github.com/ClimSocAna/tecb-de (license: MIT)"
            raise Unavailable(f"{_id_file()} is not there; get it from {origin}")
        if not (os.environ.get(ID) and os.environ.get(SECRET)):
            fix = f"set {ID} and {SECRET} (reddit.com/prefs/apps)"
            raise Unavailable(f"Reddit's texts need credentials of your own: {fix}")
        download(self.files()[0], Api(os.environ[ID], os.environ[SECRET], os.environ.get(AGENT, "traube (benchmark)")))

    @override
    def read(self) -> pd.DataFrame:
        fetched_posts = _read_fetched(self.files()[0]).values()
        posts = [p for p in fetched_posts if p.get("title") and p["selftext"] not in ("[removed]", "[deleted]")]
        clean = clean_as_paper if self.way == "paper" else clean_text
        rows = [(clean(p["title"]), clean(p["selftext"]), p["subreddit"]) for p in posts]
        frame = pd.DataFrame(rows, columns=["title", "body", "subreddit"])
        if self.way == "paper" and self.kind == "p2p":
            frame = frame[frame["body"] != ""]
        whole = (frame["title"] + " " + frame["body"]).str.strip()
        frame = frame.assign(text=frame["title"] if self.kind == "s2s" else whole)
        return frame.loc[frame["text"] != "", ["text", "subreddit"]].reset_index(drop=True)

    def draw(self, records: pd.DataFrame) -> pd.DataFrame:
        """Draw ten splits: all submissions of 10 to 50 random subreddits."""
        names = sorted(records["subreddit"].unique())
        drawn = draw_as_paper(names) if self.way == "paper" else draw_subreddits(names)
        samples = (records[records["subreddit"].isin(chosen)] for chosen in drawn)
        splits = [split_whole(rows, f"sample_{i:02d}", "subreddit") for i, rows in enumerate(samples)]
        return pd.concat(splits, ignore_index=True)


def draw_subreddits(names: list[str]) -> Iterator[list[str]]:
    """Yield the subreddits of each split: a number from 10 to 50, drawn uniformly, and as many of them."""
    for i in range(SPLITS):
        rng = make_rng(f"subreddits_{i:02d}")
        count = min(len(names), FEWEST + int(rng.random() * (MOST - FEWEST + 1)))
        yield [names[j] for j in shuffle(len(names), rng)[:count]]


def draw_as_paper(names: list[str]) -> Iterator[list[str]]:
    """Yield the subreddits of each split as the authors' script draws them: one list, shuffled on and on."""
    rng = random.Random(SEED)  # noqa: S311
    order = list(names)
    for _ in range(SPLITS):
        count = rng.randint(FEWEST, MOST)
        rng.shuffle(order)
        yield order[:count]


def clean_text(text: str) -> str:
    """Return a text in one line, with links replaced by their visible text and without web addresses."""
    return " ".join(URL.sub("", LINK.sub(r"\1", text)).split())


def clean_as_paper(text: str) -> str:
    """Return a text as `clean_text` does, with the authors' pattern of a link."""
    return URL.sub("", GREEDY_LINK.sub(r"\1", text.strip()))


@dataclass
class Api:
    """Reddit's API, with an application's credentials."""

    client: str
    secret: str
    agent: str
    token_url: str = "https://www.reddit.com/api/v1/access_token"  # noqa: S105
    info_url: str = "https://oauth.reddit.com/api/info"
    sleep: Callable[[float], None] = time.sleep  # waits; a test need not

    def submissions(self, ids: list[str]) -> Iterator[tuple[list[str], dict[str, dict[str, Any]]]]:
        """Yield batches of ids, each with the API's data of the submissions that still exist.

        Raises
        ------
        Unavailable
            If Reddit refuses the credentials or cannot be reached.
        """
        import requests
        from requests.adapters import HTTPAdapter
        from urllib3.util import Retry

        session = requests.Session()
        # waits as long as the server says (Retry-After), else longer and longer
        patience = Retry(total=8, backoff_factor=1, status_forcelist=(429, 500, 502, 503, 504), allowed_methods=None)
        session.mount("https://", HTTPAdapter(max_retries=patience))
        session.mount("http://", HTTPAdapter(max_retries=patience))
        session.headers["User-Agent"] = self.agent
        try:
            self._log_in(session)
            for start in range(0, len(ids), BATCH):
                batch = ids[start : start + BATCH]
                wanted = {"id": ",".join(f"t3_{i}" for i in batch)}
                answer = session.get(self.info_url, params=wanted, timeout=60)
                if answer.status_code == 401:  # a token lasts an hour
                    self._log_in(session)
                    answer = session.get(self.info_url, params=wanted, timeout=60)
                answer.raise_for_status()
                posts = [child["data"] for child in answer.json()["data"]["children"]]
                yield batch, {post["id"]: post for post in posts}
                if float(answer.headers.get("X-Ratelimit-Remaining", 1)) < 1:
                    self.sleep(float(answer.headers.get("X-Ratelimit-Reset", 60)))
        except (requests.RequestException, KeyError, ValueError) as error:
            raise Unavailable(f"Reddit does not answer: {error}; what was fetched is kept, run again") from None

    def _log_in(self, session: Any) -> None:
        data = {"grant_type": "client_credentials"}
        session.headers.pop("Authorization", None)
        answer = session.post(self.token_url, data=data, auth=(self.client, self.secret), timeout=60)
        if answer.status_code in (401, 403):
            raise Unavailable(f"Reddit refuses the credentials in {ID} and {SECRET}")
        answer.raise_for_status()
        session.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"


def download(path: Path, api: Api) -> None:
    """Add missing submissions to the file; of a submission that is gone, only its id is noted."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_suffix(".download")):
        if path.is_file() and not (data := path.read_bytes()).endswith(b"\n"):
            with path.open("r+b") as file:  # the last line was being written when the download was stopped
                file.truncate(data.rfind(b"\n") + 1)
        here = _read_fetched(path)
        for batch, posts in api.submissions([i for i in _ids() if i not in here]):
            for submission in batch:
                post = posts.get(submission, {})
                kept = {name: post.get(name) or "" for name in ("title", "selftext", "subreddit")} if post else {}
                append_line(path, json.dumps({"id": submission, **kept}, ensure_ascii=False))


def _ids() -> list[str]:
    """Return the ids that the authors published, each once; none if their file is absent."""
    path = _id_file()
    if not path.is_file():
        return []
    return list(dict.fromkeys(line.strip() for line in read_lines(path)[1:] if line.strip()))


def _id_file() -> Path:
    return find_file(raw() / "tecb_de" / "reddit_submission_ids.txt")


def _read_fetched(path: Path) -> dict[str, dict[str, Any]]:
    """Return the contents of the file, by id."""
    if not path.is_file():
        return {}
    posts = {}
    # the last piece is empty, or was being written when the download was stopped
    for number, line in enumerate(read_bytes(path).decode("utf-8", "replace").split("\n")[:-1], start=1):
        try:
            post = parse_json(line)
            if not all(isinstance(post.get(key, ""), str) for key in ("id", "title", "selftext", "subreddit")):
                raise TypeError
            posts[post["id"]] = post
        except (ValueError, TypeError, KeyError):
            raise Malformed(f"{path}:{number}: no submission; remove the line, and it is fetched again") from None
    return posts


def sources() -> list[Source]:
    """Return the tasks of Reddit: titles and whole texts, cleaned rightly and as the paper did."""
    return [Reddit("s2s", "right"), Reddit("p2p", "right"), Reddit("s2s", "paper"), Reddit("p2p", "paper")]
