"""Likeness by an embedding model: a tiny one with random weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.embedding import Embedder
from pipeline.errors import ConfigError
from pipeline.settings import load_settings
from pipeline.vote_options import vote_options


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    place = tmp_path_factory.mktemp("embedding")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "dogs", "run"]
    (place / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizerFast(str(place / "vocab.txt")).save_pretrained(place)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
    )
    transformers.BertModel(config).save_pretrained(place)
    return place


def test_likeness_is_symmetric_bounded_and_one_for_the_same_text(folder: Path) -> None:
    alike = vote_options(load_settings(bootstrap="x:1", vote={"embedding": str(folder)})).similarity
    assert alike("the cat sat", "the cat sat") == 1.0
    assert 0 <= alike("the cat sat", "dogs run") == alike("dogs run", "the cat sat") < 1
    assert alike("the cat", "the " * 2_000) >= 0


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="TALLYSTREAM_VOTE__EMBEDDING") as caught:
        Embedder(tmp_path)
    assert str(tmp_path) in caught.value.message
