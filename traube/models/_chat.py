"""Chat models behind an endpoint that speaks as OpenAI's does: Ollama, llama.cpp, vLLM, and OpenAI itself."""

import os
from dataclasses import dataclass
from typing import Self

from pydantic import BaseModel, Field, ValidationError

from traube._core.errors import Failed, Invalid, Malformed, Unsafe
from traube._core.hashing import digest
from traube._core.posting import NotPosted, parse_address, post_json
from traube._core.settings import NAME_KEY

SECONDS = 120  # a model of many gigabytes is loaded by its first question
LARGEST = 2**20  # bytes of an answer
BYTES = 4  # of UTF-8 in a token, about


@dataclass(frozen=True)
class ChatEndpoint:
    """A model that answers ``POST URL/chat/completions``.

    The key is the environment's ``TRAUBE_NAME_KEY``; without it none is sent.

    Attributes
    ----------
    url : str
        An address of https, or http of this machine, such as ``http://127.0.0.1:11434/v1``.
    model : str
        The model's name there.
    seconds : float, default=120
        The longest wait for an answer.
    """

    url: str
    model: str
    seconds: float = SECONDS
    longest_reply = 1024  # tokens; a model that reasons first needs most of them

    @classmethod
    def parse(cls, name: str) -> Self:
        """Return the endpoint of ``URL#MODEL``.

        Raises
        ------
        TraubeError
            If it has another form, or would send texts and key unencrypted to another machine.
        """
        return cls(*parse_endpoint(name, NAME_KEY))

    @property
    def fingerprint(self) -> str:
        """A hash of address and model."""
        return digest([self.url, self.model])

    def reply(self, prompt: str, most: int) -> tuple[str, int]:
        """Ask the model.

        Parameters
        ----------
        prompt : str
            The question.
        most : int
            The most tokens of the answer.

        Returns
        -------
        text : str
            The answer, without what the model thought before.
        tokens : int
            Of question and answer, as the endpoint counted them, or else `count_tokens`.

        Raises
        ------
        TraubeError
            If there is no answer, with the reason and what to do.
        """
        question = {"model": self.model, "messages": [{"role": "user", "content": prompt}]}
        try:
            try:
                answer = self._post(question | {"max_tokens": most, "temperature": 0})
            except NotPosted as error:
                if error.status != 400:
                    raise
                # models of OpenAI that reason refuse both
                answer = self._post(question | {"max_completion_tokens": most})
        except NotPosted as error:
            raise Failed(f"{self.url} {self._explain(error)}") from None
        try:
            completion = _Completion.model_validate_json(answer)
        except ValidationError:
            raise Malformed(
                f"{self.url} answered with something else than a chat completion: check the address, which mostly ends in /v1"
            ) from None
        said = completion.choices[0].message.content or ""
        tokens = completion.usage.total_tokens if completion.usage else count_tokens(prompt) + count_tokens(said)
        return said.rpartition("</think>")[2].partition("<think>")[0], tokens

    def _post(self, question: dict[str, object]) -> bytes:
        key = os.environ.get(NAME_KEY, "").strip()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return post_json(f"{self.url}/chat/completions", question, headers, seconds=self.seconds, most=LARGEST)

    def _explain(self, error: NotPosted) -> str:
        """Return what a failed request means, and what to do."""
        if error.status is not None:
            return explain_status(error.status, NAME_KEY, "the names so far are kept")
        if isinstance(error.cause, TimeoutError):
            return f"did not answer within {self.seconds:g} seconds: try again, or take a smaller model"
        return f"could not be reached ({type(error.cause).__name__}): start the server, or check the address"


def parse_endpoint(name: str, key: str) -> tuple[str, str]:
    """Return the address and the model of ``URL#MODEL``.

    Parameters
    ----------
    name : str
        The endpoint.
    key : str
        Name of the environment variable that holds its key.

    Returns
    -------
    url : str
        An address of https, or http of this machine.
    model : str
        The model's name there.

    Raises
    ------
    TraubeError
        If it has another form, or would send texts and key unencrypted to another machine.
    """
    url, _, model = name.partition("#")
    address = parse_address(url)
    if address is None and url.startswith("http://"):
        raise Unsafe(
            "an endpoint by http has to be on this machine, since anyone on the way could read texts and key: use https"
        )
    if address is None or not model or address.query or "@" in address.netloc:
        raise Invalid(
            f"an endpoint is URL#MODEL, like http://127.0.0.1:11434/v1#llama3.2, by https or on this machine, and its key "
            f"stands in {key} alone"
        )
    return url.rstrip("/"), model


def explain_status(status: int, key: str, kept: str) -> str:
    """Return what an endpoint's status means, and what to do: about the key in a variable, and about what is kept."""
    advice = {
        401: f"set {key} to your key",
        403: f"set {key} to a key that may use this model",
        404: "check the address and the model's name",
        429: f"wait, and run the same again: {kept}",
    }
    is_redirect = 300 <= status < 400
    other = "give the address that it redirects to" if is_redirect else "see what the server says, and try again"
    return f"answered with status {status}: {advice.get(status, other)}"


def count_tokens(text: str) -> int:
    """Return about how many tokens a text has, at four bytes of UTF-8 each."""
    return -(-len(text.encode(errors="replace")) // BYTES)


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Message


class _Usage(BaseModel):
    total_tokens: int = Field(ge=0)


class _Completion(BaseModel):
    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None
