"""One tiny model for all of the engine's tests."""

from __future__ import annotations

import pytest
import torch
from engine_support import load_tiny

from pipeline.engine.model import LoadedModel
from tests.tiny_model import build_tiny_model


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    torch.set_num_threads(1)
    return load_tiny(build_tiny_model(tmp_path_factory.mktemp("models") / "tiny", context=1024))
