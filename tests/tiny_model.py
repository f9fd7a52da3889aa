"""A tiny random Llama with a byte-level tokenizer, for tests that need a model but not its sense."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

BOS, EOS, PAD = "<s>", "</s>", "<pad>"
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}[{{ message['role'] }}]{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """A token a byte, and three special ones: every text can be written and its length is known."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate([PAD, BOS, EOS, *alphabet])}
    core = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=PAD,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def tiny_llama(
    seed: int = 0,
    *,
    vocabulary: int = 259,
    context: int = 1024,
    heads: tuple[int, int] = (4, 2),
    head_size: int = 8,
) -> LlamaForCausalLM:
    """Two layers with grouped keys; weights wide enough that the logits of two tokens are well apart.

    Args:
        heads: of queries, and of keys.
    """
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=heads[0],
        num_key_value_heads=heads[1],
        head_dim=head_size,
        max_position_embeddings=context,
        initializer_range=0.15,
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).eval()


def build_tiny_model(
    folder: Path,
    seed: int = 0,
    *,
    context: int = 1024,
    heads: tuple[int, int] = (4, 2),
    head_size: int = 8,
) -> Path:
    """Write model and tokenizer into ``folder``, ready for ``TALLYSTREAM_MODEL``; the same seed, the same weights."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = tiny_tokenizer()
    tokenizer.save_pretrained(folder)
    model = tiny_llama(seed, vocabulary=len(tokenizer), context=context, heads=heads, head_size=head_size)
    model.save_pretrained(folder)
    return folder
