"""The bodies of requests: read strictly as JSON, and checked by their models."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, field_validator
from starlette.requests import Request

from weft.documents import parse_json
from weft.serve.api_errors import RequestError

Name = Annotated[StrictStr, Field(min_length=1, max_length=200)]
Number = StrictInt | StrictFloat


class Body(BaseModel):
    """The base of bodies: a field that is not known is refused."""

    model_config = ConfigDict(extra="forbid", title="Request")


class Predict(BaseModel):
    """Inputs to answer. All other fields are options of `predict`."""

    model_config = ConfigDict(extra="allow")

    inputs: list[Any] = Field(description="The inputs: texts, or what the model reads.")
    model: Name | None = Field(None, description="The name of the model; not needed where there is one.")

    def options(self) -> dict[str, Any]:
        return {name: value for name, value in (self.model_extra or {}).items() if value is not None}


class Stream(BaseModel):
    """One input whose text is sent in pieces. All other fields are options of `predict`."""

    model_config = ConfigDict(extra="allow")

    input: Any = Field(description="The input: a text, or what the model reads.")
    model: Name | None = None

    def options(self) -> dict[str, Any]:
        return {name: value for name, value in (self.model_extra or {}).items() if value is not None}


class Score(Body):
    """Texts whose probability is asked for; for a translator pairs of source and target."""

    inputs: list[Any]
    model: Name | None = None
    candidates: Annotated[StrictInt, Field(ge=0, le=100)] = Field(0, description="The likeliest tokens at each place.")


class Embed(Body):
    """Texts whose vectors are asked for."""

    inputs: list[Any]
    model: Name | None = None
    level: Literal["sentence", "word", "token"] = "sentence"


class Reload(Body):
    """Load runs again whose folder has changed."""

    model: Name | None = None


class StreamOptions(Body):
    include_usage: StrictBool = False


class Completion(BaseModel):
    """A request of OpenAI's completions. Fields that change nothing here are accepted; those that would, refused."""

    model_config = ConfigDict(extra="forbid")

    model: Name | None = None
    prompt: StrictStr | list[StrictStr] = Field("", description="A text, or several.")

    @field_validator("prompt", mode="before")
    @classmethod
    def _no_token_ids(cls, prompt: Any) -> Any:
        parts = prompt if isinstance(prompt, list) else ()
        if any(isinstance(part, int | list) for part in parts):
            raise ValueError("token ids are not accepted (send a text, or a list of texts)")
        return prompt

    max_tokens: Annotated[StrictInt, Field(ge=0)] | None = Field(16, description="The most tokens to write.")
    temperature: Annotated[Number, Field(ge=0, le=2)] | None = Field(1.0, description="0 takes the likeliest token.")
    top_p: Annotated[Number, Field(gt=0, le=1)] | None = 1.0
    n: Annotated[StrictInt, Field(ge=1)] | None = Field(1, description="Texts for each prompt.")
    stop: StrictStr | list[StrictStr] | None = Field(None, description="Texts end before any of these.")
    logprobs: Annotated[StrictInt, Field(ge=0, le=5)] | None = Field(
        None, description="Likeliest tokens of each place."
    )
    echo: StrictBool | None = Field(False, description="Begin the text with the prompt.")
    stream: StrictBool | None = False
    stream_options: StreamOptions | None = None
    seed: Annotated[StrictInt, Field(ge=0, lt=2**63)] | None = None
    presence_penalty: Annotated[Number, Field(ge=-2, le=2)] | None = 0.0
    frequency_penalty: Annotated[Number, Field(ge=-2, le=2)] | None = 0.0
    best_of: Annotated[StrictInt, Field(ge=1)] | None = None
    suffix: StrictStr | None = None
    logit_bias: dict[str, Number] | None = None
    user: StrictStr | None = None


Kind = TypeVar("Kind", bound=BaseModel)


async def read_body(request: Request, kind: type[Kind]) -> Kind:
    """Return the body of a request; raise a `RequestError` where it is no JSON object, and pydantic's `ValidationError`
    where it has another form."""
    return kind.model_validate(await read_object(request))


async def read_object(request: Request) -> dict[str, Any]:
    """Return the JSON object in the body of a request, within the limits of `weft.limits`."""
    try:
        tree = parse_json(await request.body())
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise RequestError(f"the body is no JSON: {reason}", cure="send an object in UTF-8") from None
    if not isinstance(tree, dict):
        raise RequestError("the body is no JSON object", cure='such as {"inputs": ["…"]}')
    return tree
