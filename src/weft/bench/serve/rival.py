"""Other software behind FastAPI, as its users write it: one call of the model for each request, in FastAPI's threads.

    python -m weft.bench.serve.rival huggingface|ctranslate2 FOLDER THREADS

FOLDER was written by `weft export`. The bodies and answers are those of `weft serve`, so that one client measures all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from weft.export.tokenizer import TARGET
from weft.serve.listening import listen, run_server
from weft.text import SPECIALS, UNK

BEAM, MAX_LENGTH = 4, 256

Translate = Callable[[Sequence[str]], list[str]]


class Texts(BaseModel):
    """The body of a request."""

    inputs: list[str]


def target_folder(folder: Path) -> Path:
    """The folder of the tokenizer of what is written: a folder of its own where the two sides have different ones."""
    own = folder / TARGET
    return own if own.is_dir() else folder


def huggingface(folder: Path, threads: int) -> Translate:
    """transformers' `generate`: its pipeline for translation does not exist in version 5 any more."""
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    torch.set_num_threads(threads)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    target: Any = AutoTokenizer.from_pretrained(target_folder(folder))
    model: Any = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()

    def translate(texts: Sequence[str]) -> list[str]:
        with torch.inference_mode():
            batch = tokenizer(list(texts), return_tensors="pt", padding=True)
            longest = int(batch["input_ids"].shape[1])
            found = model.generate(
                input_ids=batch["input_ids"],
                attention_mask=batch["attention_mask"],
                num_beams=BEAM,
                max_new_tokens=min(MAX_LENGTH, 2 * longest + 20),
            )
        return list(target.batch_decode(found, skip_special_tokens=True))

    return translate


def ctranslate2(folder: Path, threads: int) -> Translate:
    """CTranslate2, a translator on each core: for many small requests that is faster than several threads for one."""
    from tokenizers import Tokenizer

    from weft.export.ctranslate2 import load_ctranslate2

    tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
    target: Any = Tokenizer.from_file(str(target_folder(folder) / "tokenizer.json"))
    model = load_ctranslate2().Translator(str(folder), inter_threads=threads, intra_threads=1)
    never = [[name] for number, name in enumerate(SPECIALS) if name in ("<pad>", "<sos>", "<mask>") and number != UNK]

    def translate(texts: Sequence[str]) -> list[str]:
        rows = [one.tokens for one in tokenizer.encode_batch(list(texts))]
        longest = max(map(len, rows))
        found = model.translate_batch(
            rows, beam_size=BEAM, suppress_sequences=never, max_decoding_length=min(MAX_LENGTH, 2 * longest + 20)
        )
        ids = [[target.token_to_id(token) for token in one.hypotheses[0]] for one in found]
        return list(target.decode_batch(ids))

    return translate


RIVALS: dict[str, Callable[[Path, int], Translate]] = {"huggingface": huggingface, "ctranslate2": ctranslate2}


def create_rival(translate: Translate) -> FastAPI:
    """Return the application around a function."""
    app = FastAPI(docs_url=None, redoc_url=None)

    @app.post("/v1/predict")
    def predict(body: Texts) -> dict[str, Any]:
        return {"predictions": [{"text": text} for text in translate(body.inputs)]}

    @app.get("/readyz")
    def ready() -> dict[str, str]:
        return {"status": "ready"}

    return app


if __name__ == "__main__":
    name, given, count = sys.argv[1:]
    application = create_rival(RIVALS[name](Path(given), int(count)))
    opened = listen()
    print(opened.url, flush=True)
    run_server(application, opened, connections=None)
