"""Models behind an endpoint that speaks as OpenAI's does, reached by the official client.

What is sent is said before the first request and kept within a budget. Requests run side by side; an answer is checked
and handed on as soon as it is here, so that whoever stores it pays for no text twice.
"""

import logging
import math
import os
import random
import threading
import time
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from typing_extensions import override

from traube._core import paths
from traube._core.arrays import Ints
from traube._core.errors import (
    Failed,
    Invalid,
    Malformed,
    OverBudget,
    TooLarge,
    TraubeError,
    Unavailable,
    Unreachable,
    Unsafe,
    install_hint,
)
from traube._core.files import locked
from traube._core.hashing import digest
from traube._core.spending import Spending, get_spending, in_dollars
from traube._storage import Document, open_storage
from traube.models.base import BatchEncoder, OfCard
from traube.models.chat import count_tokens, explain_status
from traube.models.prompts import Purpose
from traube.models.vectors import Dense

if TYPE_CHECKING:
    import httpx
    import openai

logger = logging.getLogger(__name__)

PARALLEL = 4  # requests
TOKENS_A_REQUEST = 100_000  # at most, as estimated; a longer text goes alone
RETRIES = 5
RETRIES_AFTER_TIMEOUT = 1  # such a request may have been billed
RETRIES_OF_CONNECTION = 2  # where nobody listens
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 120.0  # seconds between two tries
KEPT = "what is paid for is kept"
NO_EMBEDDINGS = "something else than embeddings: check the address, which mostly ends in /v1"
LARGEST = 2**28  # bytes of an answer: 2,048 vectors of 4,096 numbers in words
SLOWEST = 5  # times the longest wait, until a whole answer is here
SHOWN = 200  # characters of what a server says
# Anything else that the client or its environment would add, such as the system's version, is not sent.
HEADERS = {"host", "accept", "connection", "content-type", "content-length", "user-agent"}
SENTENCES = (
    "The recipe asks for two cups of flour and a pinch of salt.",
    "The keeper saved the penalty in the last minute.",
    "Der Zug nach Hamburg hat heute zwanzig Minuten Verspätung.",
    "import numpy as np; print(np.arange(10).mean())",
    "Interest rates rose by a quarter of a point.",
)
SAME = 0.9999  # the least cosine between two vectors that one model gives a sentence


class Probe(Document):
    """The vectors that an endpoint has given some sentences."""

    kind: ClassVar[str] = "probe"
    url: str = ""
    model: str | None = None
    vectors: list[str]  # in base64, those of each version that the endpoint has shown
    current: int  # position of today's


def refuse_unnamed(model: object, named: Collection[str]) -> None:
    """Refuse an endpoint outside of a command of a person, unless it is among the names of params.yaml."""
    if isinstance(model, Endpoint) and get_spending() is None and model.name not in named:
        raise Unsafe(
            f"model '{model.name}' is behind an endpoint, to which runs of their own send texts only if params.yaml names it "
            "(models)"
        )


def limit_unattended(model: object, budget: float | None) -> None:
    """Set the budget of an endpoint outside of a command of a person, which has its own (`--budget`)."""
    if isinstance(model, Endpoint) and get_spending() is None:
        model.own_spending.budget = budget


class _TryAgain(Exception):
    """A request failed, and may be tried again after some seconds."""

    def __init__(self, fault: str, pause: float, tries: int = RETRIES) -> None:
        super().__init__(fault)
        self.pause, self.tries = pause, tries


class Endpoint(OfCard, BatchEncoder):
    """A model that answers ``POST URL/embeddings``.

    The key is that of the environment's variable that the card names, by default ``TRAUBE_MODEL_KEY``; without it none is
    sent. A fingerprint has address, model, dimensions, prompt, and the vectors of five sentences, which are compared
    before each run.
    """

    device = "cpu"  # of all that is done with the vectors here
    weight_bytes = 0
    precision = ""
    seconds = 60.0  # the longest wait for an answer
    first_pause = FIRST_PAUSE

    @property
    def numerics(self) -> dict[str, str]:
        """Return nothing: no code of this machine computes the vectors."""
        return {}

    @property
    def prompt(self) -> str:
        """Text that is put in front of every other; empty if nothing is."""
        return self.card.prompt or ""

    def prompted_for(self, purpose: Purpose) -> "Endpoint":
        """Return the model itself: its prompt is the card's for any purpose."""
        return self

    @property
    def fingerprint(self) -> str:
        """Hash of address, model, dimensions, prompt and the stored vectors of the probe; without these if it was never sent."""
        references, current = self._read_references()
        probe = digest([references[current]]) if references else ""
        return digest(["endpoint", self.card.url, self.card.model, self.card.dimensions, self.prompt, probe])

    @property
    def paid(self) -> float:
        """Money that this run has spent on models with a price, in dollars; nan if the card states none."""
        return math.nan if self.card.price is None else self._spending.dollars

    def load(self) -> int:
        """Return 0: there are no weights."""
        return 0

    @override
    def fetch(self) -> None:
        """Compare the endpoint with what it was, once a run: send the probe, and warn where its vectors differ.

        If the probe has no answer, stored vectors can be used, and nothing else is sent.

        Raises
        ------
        Unavailable
            If an endpoint that was never used does not answer.
        """
        spending = self._spending
        if self._key in spending.compared:
            return
        with locked(paths.home() / "endpoints" / self._key):
            references, _ = self._read_references()
            try:
                vectors = self._probe()
            except TraubeError as error:
                if not references:
                    raise Unavailable(f"model '{self.name}': {error}") from None
                spending.compared[self._key] = str(error)
                logger.warning("model '%s': %s; stored vectors are used, and nothing is sent", self.name, error)
                return
            self._remember(vectors)
        spending.compared[self._key] = ""

    def encode_batches(self, texts: Sequence[str]) -> Iterator[tuple[Ints, Dense]]:
        """Yield positions [b] in `texts` and vectors, float32 [b, d], as requests are answered.

        An error that is raised here or thrown in stops the sending, and is raised once what is under way is yielded.

        Raises
        ------
        TraubeError
            If the endpoint fails or gives something else than vectors, or the budget does not reach.
        """
        self.fetch()
        if fault := self._spending.compared[self._key]:
            raise Failed(f"model '{self.name}': {fault}")
        # as UTF-8 can hold them: halves of characters become question marks
        sent = [f"{self.prompt}{text}".encode(errors="replace").decode() for text in texts]
        tokens = [count_tokens(text) for text in sent]
        before = self._spending.dollars, self._spending.tokens
        self._announce(len(texts), sum(tokens))
        with _Requests(self) as requests:
            yield from self._send(sent, tokens, requests)
        dollars, more = self._spending.dollars - before[0], self._spending.tokens - before[1]
        cost = f"{more:,.0f} tokens" if self.card.price is None else f"{in_dollars(dollars)}"
        logger.warning("%s: %s texts cost %s by the server's count", self.card.url, f"{len(texts):,}", cost)

    def _send(self, texts: list[str], tokens: list[int], requests: "_Requests") -> Iterator[tuple[Ints, Dense]]:
        waiting = deque(_split(tokens, self.card.batch))
        running: dict[Future[tuple[Dense, int | None]], tuple[Ints, int]] = {}
        failure: BaseException | None = None
        while running or (waiting and failure is None):
            try:
                while waiting and failure is None and len(running) < requests.parallel:
                    estimate = sum(tokens[i] for i in waiting[0])
                    if not self._can_pay(estimate + sum(known for _, known in running.values())):
                        if running:  # which may cost less than estimated
                            break
                        sent = f"{len(texts) - sum(map(len, waiting)):,} of {len(texts):,} texts were sent"
                        raise OverBudget(f"{self.card.url}: {self._describe_budget()}; {sent}; {KEPT}")
                    chosen = waiting.popleft()
                    running[requests.submit([texts[i] for i in chosen])] = chosen, estimate
                future = next(iter(wait(running, return_when=FIRST_COMPLETED).done))
                positions, estimate = running.pop(future)
                vectors, used = future.result()
                self._pay(estimate, used)
                self._check_length(vectors)
                requests.parallel = PARALLEL  # the first one alone says what a text costs
                yield positions, vectors
            except GeneratorExit:
                raise
            except BaseException as error:
                if failure is not None and not isinstance(error, Exception):
                    raise
                failure = failure or error
                requests.stop.set()
        if failure is not None:
            raise failure

    def ask(self, client: "openai.OpenAI", texts: list[str]) -> tuple[Dense, int | None]:
        """Send one request; return vectors, float32 [n, d], and the server's count of tokens, if it gives one."""
        import httpx
        import openai

        more: dict[str, Any] = {}
        if self.card.dimensions is not None:
            more["dimensions"] = self.card.dimensions
        try:
            answer = client.embeddings.create(input=texts, model=str(self.card.model), **more)
        except openai.APIStatusError as error:
            raise self._explain_refusal(error) from None
        except openai.APITimeoutError:
            fault = f"did not answer within {self.seconds:g} seconds: try again later; {KEPT}"
            raise _TryAgain(fault, self.first_pause, RETRIES_AFTER_TIMEOUT) from None
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            if isinstance(cause, TraubeError):
                raise cause from None
            fault = f"could not be reached, or broke off ({type(cause).__name__}): start the server, or check the address; {KEPT}"
            tries = RETRIES_OF_CONNECTION if isinstance(cause, httpx.ConnectError) else RETRIES
            raise _TryAgain(fault, self.first_pause, tries) from None
        except Exception:  # the client reads an answer as it comes, so that nonsense in it raises anything
            raise self._lie(NO_EMBEDDINGS) from None
        try:
            return self._read(answer, len(texts)), _read_usage(answer)
        except TraubeError:
            raise
        except Exception:  # an answer may hold anything anywhere
            raise self._lie(NO_EMBEDDINGS) from None

    def _explain_refusal(self, error: "openai.APIStatusError") -> Exception:
        """Return the error of a status: one to try again after, where the server is busy or failed."""
        status, body = error.status_code, error.body if isinstance(error.body, dict) else {}
        fault = explain_status(status, self.card.key_env, KEPT)
        if status in (408, 409, 429) or status >= 500:
            pause = _read_pause(error.response.headers)
            if body.get("code") != "insufficient_quota" and (pause or 0.0) <= LONGEST_PAUSE:
                return _TryAgain(fault, self.first_pause if pause is None else pause)
            if pause:
                fault += f" (in {pause:,.0f} seconds, as it states)"
        elif status == 400 and isinstance(said := body.get("message"), str):
            key = self.read_key()
            fault += f" ({(said.replace(key, '***') if key else said)[:SHOWN]})"
        return Failed(f"{self.card.url} {fault}")

    def _read(self, answer: Any, n: int) -> Dense:
        """Return the vectors of an answer in the order of the texts, if they are what they should be."""
        data = answer.data
        if not isinstance(data, list) or len(data) != n:
            raise self._lie(f"{len(data) if isinstance(data, list) else 'no'} vectors for {n} texts")
        places = [getattr(entry, "index", None) for entry in data]
        if set(places) != set(range(n)):
            raise self._lie("vectors that are numbered differently than the texts")
        of_text = dict(zip(places, data, strict=True))
        rows = [of_text[i].embedding for i in range(n)]
        lengths = {len(row) if isinstance(row, list) else 0 for row in rows}
        if len(lengths) > 1 or 0 in lengths:
            raise self._lie("vectors of several lengths, or none")
        try:
            with np.errstate(over="ignore"):
                vectors = np.array(rows, dtype=np.float64).astype(np.float32)
        except (TypeError, ValueError):
            raise self._lie("vectors that are no numbers") from None
        if not np.isfinite(vectors).all():
            raise self._lie("vectors with NaN or infinity")
        if vectors.shape[1] != (wanted := self.card.dimensions or vectors.shape[1]):
            raise self._lie(f"vectors of length {vectors.shape[1]}, where the card states {wanted} dimensions")
        return vectors

    def _check_length(self, vectors: Dense) -> None:
        """Check that vectors are as long as the first ones of the run."""
        known = self._spending.lengths.setdefault(self._key, vectors.shape[1])
        if known != vectors.shape[1]:
            raise self._lie(f"vectors of length {vectors.shape[1]} after others of {known}")

    def _lie(self, what: str) -> TraubeError:
        return Malformed(f"{self.card.url} (model {self.card.model}) answered with {what}; {KEPT}")

    # the probe

    @cached_property
    def _key(self) -> str:
        return digest([self.card.url, self.card.model, self.card.dimensions])

    def _probe(self) -> Dense:
        """Return today's vectors of the sentences, float32 [5, d]."""
        estimate = sum(map(count_tokens, SENTENCES))
        if not self._can_pay(estimate):
            raise OverBudget(f"{self.card.url}: {self._describe_budget()}")
        with _Requests(self) as requests:
            vectors, used = requests.submit(list(SENTENCES)).result()
        self._pay(estimate, used)
        self._check_length(vectors)
        return vectors

    def _read_references(self) -> tuple[list[str], int]:
        """Return the vectors that the sentences have had, in base64, and which of them are today's."""
        probe = open_storage(paths.home()).get_document(Probe, self._key)
        return (probe.vectors, probe.current) if probe else ([], 0)

    def _remember(self, vectors: Dense) -> None:
        """Store which of the known vectors of the sentences are today's, or new ones, and warn of a change."""
        references, current = self._read_references()
        closest = [_compare(vectors, reference) for reference in references]
        if references and closest[current] >= SAME:
            return
        index = next((i for i, cosine in enumerate(closest) if cosine >= SAME), len(references))
        if references:
            logger.warning(
                "model '%s': %s gives other vectors than before (cosine %.4f on a fixed sentence, at least %s if nothing had "
                "changed): it counts as another model, with cells of its own",
                self.name, self.card.url, closest[current], SAME,
            )  # fmt: skip
        if index == len(references):
            references = [*references, b64encode(vectors.tobytes()).decode()]
        about = {"url": self.card.url, "model": self.card.model, "vectors": references, "current": index}
        open_storage(paths.home()).save_document(Probe(key=self._key, **about))

    # money

    @property
    def _spending(self) -> Spending:
        return get_spending() or self.own_spending

    @cached_property
    def own_spending(self) -> Spending:
        """Return what this object has cost outside of commands, and the budget that it keeps to there."""
        return Spending()

    def _cost(self, tokens: float) -> float:
        """Return what tokens cost, in the unit of this model."""
        return tokens if self.card.price is None else tokens * self.card.price / 1e6

    def _can_pay(self, estimate: float) -> bool:
        """Return whether so many tokens, as estimated, fit into what is left of the budget."""
        spending = self._spending
        spent = spending.tokens if self.card.price is None else spending.dollars
        cost = self._cost(estimate * spending.rates.get(self._key, 1.0))
        return spending.budget is None or spent + cost <= spending.budget

    def _pay(self, estimate: int, used: int | None) -> None:
        spending, tokens = self._spending, estimate if used is None else used
        spending.rates[self._key] = max(spending.rates.get(self._key, 1.0), tokens / max(estimate, 1))
        if self.card.price is None:
            spending.tokens += tokens
        else:
            spending.dollars += self._cost(tokens)

    def _announce(self, n: int, tokens: int) -> None:
        """Say what will be sent to whom, and what it costs; raise a TraubeError if the budget does not reach."""
        line = self._describe_sending(n, tokens)
        if not self._can_pay(tokens):
            raise OverBudget(f"{line}: {self._describe_budget()}; none was sent")
        logger.warning("sending %s", line)

    def _describe_sending(self, n: int, tokens: int) -> str:
        price, counted = self.card.price, tokens * self._spending.rates.get(self._key, 1.0)
        known = (
            f"about {in_dollars(self._cost(counted))} at {in_dollars(price)} per million tokens"
            if price is not None
            else ""
        )
        what = f"{n:,} text{'' if n == 1 else 's'} of about {round(counted):,} tokens to {self.card.url} (model {self.card.model})"
        return f"{what}, {known or 'its card states no price'}"

    def describe_sending(self, texts: Sequence[str]) -> str:
        """Return how many texts and tokens would be sent to whom, and what it costs, as estimated."""
        return self._describe_sending(len(texts), sum(count_tokens(f"{self.prompt}{text}") for text in texts))

    def _describe_budget(self) -> str:
        spending = self._spending
        unit = f"{spending.budget:,g} tokens" if self.card.price is None else in_dollars(spending.budget or 0.0)
        spent = f"{spending.tokens:,.0f}" if self.card.price is None else in_dollars(spending.dollars)
        place = "--budget" if get_spending() else "nightly.budget in params.yaml"
        return f"the budget of {unit}, of which {spent} is spent, does not reach ({place})"

    def read_key(self) -> str:
        """Return the key, from the environment alone; empty if there is none."""
        key = os.environ.get(self.card.key_env, "").strip()
        if not (key.isascii() and key.isprintable()):
            raise Invalid(f"{self.card.key_env} holds characters that no key has: set it to the key alone")
        return key


class _Requests:
    """The requests of one call: a client, the threads that wait for it, and what makes them pause or stop."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint, self.stop = endpoint, threading.Event()
        self.parallel = 1
        self._until = 0.0  # when the server takes requests again

    def __enter__(self) -> "_Requests":
        self._client = _open_client(self.endpoint)
        self._pool = ThreadPoolExecutor(PARALLEL, thread_name_prefix="endpoint")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    def submit(self, texts: list[str]) -> Future[tuple[Dense, int | None]]:
        """Send texts in another thread, again and again if need be."""
        return self._pool.submit(self._ask, texts)

    def _ask(self, texts: list[str]) -> tuple[Dense, int | None]:
        tries = 0
        while True:
            while (left := self._until - time.monotonic()) > 0 and not self.stop.is_set():
                self.stop.wait(left)
            if self.stop.is_set():
                raise Failed(f"{self.endpoint.card.url}: stopped; {KEPT}")
            try:
                return self.endpoint.ask(self._client, texts)
            except _TryAgain as error:
                tries += 1
                if tries > error.tries or self.stop.is_set():
                    raise Unreachable(f"{self.endpoint.card.url} {error}") from None
                # pauses grow, are never shorter than the server states, and no two threads come back at once
                pause = error.pause + (2 ** (tries - 1) - 1 + random.random()) * self.endpoint.first_pause  # noqa: S311
                self._until = max(self._until, time.monotonic() + min(pause, LONGEST_PAUSE))


def _open_client(endpoint: Endpoint) -> "openai.OpenAI":
    """Return OpenAI's client, which sends nothing but texts and key, and follows no redirects."""
    try:
        import openai
    except ImportError:
        raise Unavailable(f"an endpoint needs the package openai: {install_hint('endpoint')}") from None
    import httpx

    key, url = endpoint.read_key(), str(endpoint.card.url)

    class Bounded(httpx.SyncByteStream):
        """The parts of an answer, which ends in time."""

        def __init__(self, parts: Any) -> None:
            self.parts = parts

        def __iter__(self) -> Iterator[bytes]:
            size, end = 0, time.monotonic() + SLOWEST * endpoint.seconds
            for part in self.parts:
                size += len(part)
                if size > LARGEST:
                    raise TooLarge(f"{url} answered with more than {LARGEST:,} bytes; {KEPT}")
                if time.monotonic() > end:
                    raise httpx.ReadTimeout("the answer does not end")
                yield part

        def close(self) -> None:
            self.parts.close()

    def bound(response: "httpx.Response") -> None:
        if response.headers.get("content-encoding", "identity") != "identity":  # nothing says how long it will be
            raise Malformed(f"{url} answered in a packed form that was not requested; {KEPT}")
        response.stream = Bounded(response.stream)

    def keep_few(request: "httpx.Request") -> None:
        for name in [name for name in request.headers if name.lower() not in HEADERS]:
            del request.headers[name]
        request.headers["Accept-Encoding"] = "identity"
        if key:
            request.headers["Authorization"] = f"Bearer {key}"

    direct = openai.DefaultHttpxClient(
        follow_redirects=False,
        trust_env=url.startswith("https"),  # a proxy is not this machine
        event_hooks={"request": [keep_few], "response": [bound]},
    )
    return openai.OpenAI(api_key="none", base_url=url, timeout=endpoint.seconds, max_retries=0, http_client=direct)


def _split(tokens: Sequence[int], most: int) -> Iterator[Ints]:
    """Yield the positions of each request."""
    start = total = 0
    for i, count in enumerate(tokens):
        if i > start and (i - start == most or total + count > TOKENS_A_REQUEST):
            yield np.arange(start, i, dtype=np.int64)
            start, total = i, 0
        total += count
    if len(tokens) > start:
        yield np.arange(start, len(tokens), dtype=np.int64)


def _compare(vectors: Dense, reference: str) -> float:
    """Return the least cosine between the sentences' vectors and earlier ones; -1 if these have another length."""
    earlier = np.frombuffer(b64decode(reference), dtype=np.float32).reshape(len(SENTENCES), -1)
    if earlier.shape != vectors.shape:
        return -1.0
    norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(earlier, axis=1)
    return float((np.sum(vectors * earlier, axis=1) / np.where(norms > 0, norms, 1)).min())


def _read_usage(answer: Any) -> int | None:
    """Return the tokens that a server counted, if it says so."""
    usage = getattr(answer, "usage", None)
    counts = (getattr(usage, name, None) for name in ("total_tokens", "prompt_tokens"))
    return next((count for count in counts if isinstance(count, int) and count >= 0), None)


def _read_pause(headers: "httpx.Headers") -> float | None:
    """Return the seconds after which a server takes requests again, if it states them."""
    try:
        if "retry-after-ms" in headers:
            pause = float(headers["retry-after-ms"]) / 1000
        elif (stated := headers.get("retry-after", "")).replace(".", "", 1).isdigit():
            pause = float(stated)
        else:
            pause = parsedate_to_datetime(stated).timestamp() - time.time()
    except (TypeError, ValueError, OverflowError):
        return None
    return max(pause, 0.0) if math.isfinite(pause) else None
