"""Train Abacus: ``python -m pipeline.abacus.train [FOLDER]`` writes the model that the package ships.

Four minutes on one core. The same seed gives the same data in the same order; the weights are the same bits
only on the same processor and version of torch.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import torch
from torch import Tensor

from pipeline.abacus.card import card
from pipeline.abacus.folder import FOLDER
from pipeline.abacus.problems import draw_chain, draw_problem
from pipeline.abacus.tokenizer import build_tokenizer
from pipeline.abacus.training import Training

CONTEXT: Final = 256
_IGNORED: Final = -100


def build_model(tokenizer: Any) -> Any:
    """A Llama of 364,000 parameters with random weights."""
    transformers: Any = importlib.import_module("transformers")
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=96,
        intermediate_size=288,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=CONTEXT,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return transformers.LlamaForCausalLM(config)


def batches(tokenizer: Any, random: Random, training: Training) -> Iterator[tuple[Tensor, Tensor]]:
    """Token ids and labels, [batch, longest], for ever; only the chain is learned, not the question."""
    while True:
        rows: list[tuple[list[int], int]] = []
        for _ in range(training.batch):
            problem = draw_problem(random)
            prompt: list[int] = tokenizer(f"{problem.expression}=\n")["input_ids"]
            chain: list[int] = tokenizer(draw_chain(problem, random, training.noise))["input_ids"]
            rows.append(([*prompt, *chain, tokenizer.eos_token_id], len(prompt)))
        yield _padded(rows, tokenizer.pad_token_id)


def _padded(rows: Sequence[tuple[list[int], int]], pad: int) -> tuple[Tensor, Tensor]:
    longest = max(len(ids) for ids, _ in rows)
    tokens = torch.full((len(rows), longest), pad)
    labels = torch.full((len(rows), longest), _IGNORED)
    for place, (ids, prompt) in enumerate(rows):
        tokens[place, : len(ids)] = torch.tensor(ids)
        labels[place, prompt : len(ids)] = torch.tensor(ids[prompt:])
    return tokens, labels


def train(training: Training, report: Callable[[str], None]) -> tuple[Any, Any]:
    """A trained model and its tokenizer."""
    torch.manual_seed(training.seed)
    random = Random(training.seed)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=training.rate, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, training.rate_at)
    started = time.monotonic()
    data = batches(tokenizer, random, training)
    for step, (tokens, labels) in zip(range(training.steps), data, strict=False):
        # Padding stands on the right, where a causal model never looks from the left.
        loss = model(input_ids=tokens, labels=labels).loss
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if step % 100 == 0 or step == training.steps - 1:
            report(
                f"step {step:>5} of {training.steps}  loss {loss.item():.4f}  {time.monotonic() - started:.0f} s"
            )
    return model.eval(), tokenizer


def main() -> int:
    """Train and write the folder."""
    torch.set_num_threads(1)
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    training = Training()
    model, tokenizer = train(training, lambda line: print(line, flush=True))
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
    (target / "README.md").write_text(card(training, model.num_parameters()), encoding="utf-8")
    print(f"{target}: {model.num_parameters():,} parameters")
    return 0


if __name__ == "__main__":
    sys.exit(main())
