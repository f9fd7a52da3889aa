"""Abacus' tokenizer: one token a character, and a chat template that takes only the sum from what is asked."""

from __future__ import annotations

import importlib
from typing import Any, Final

PAD: Final = "<pad>"
EOS: Final = "</s>"
CHARACTERS: Final = "0123456789+-*=# \n"

# The first line of the last user turn that has a digit and an operator: a prompt path's advice follows the
# question on lines of its own, so it changes nothing.
CHAT_TEMPLATE: Final = (
    "{%- set found = namespace(sum='') -%}"
    "{%- set turn = messages | selectattr('role', 'equalto', 'user') | list | last -%}"
    "{%- for line in turn.content.split('\\n') if not found.sum -%}"
    "{%- set kept = namespace(text='', digit=false, sign=false) -%}"
    "{%- set plain = line | replace('×', '*') | replace('·', '*') | replace('−', '-') | replace('–', '-')"
    " | replace(' plus ', '+') | replace(' minus ', '-') | replace(' times ', '*') -%}"
    "{%- for character in plain -%}"
    "{%- if character in '0123456789' -%}"
    "{%- set kept.text = kept.text ~ character -%}{%- set kept.digit = true -%}"
    "{%- elif character in '+-*' and kept.digit -%}"
    "{%- set kept.text = kept.text ~ character -%}{%- set kept.sign = true -%}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if kept.sign -%}{%- set found.sum = kept.text -%}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if not found.sum -%}"
    "{{- raise_exception('Abacus only knows sums such as 17 + 4 * 6 - 9') -}}"
    "{%- endif -%}"
    "{{- found.sum ~ '=\\n' -}}"
)


def build_tokenizer() -> Any:
    """A tokenizer of transformers; what it does not know becomes nothing."""
    tokenizers: Any = importlib.import_module("tokenizers")
    transformers: Any = importlib.import_module("transformers")
    vocabulary = {token: index for index, token in enumerate([PAD, EOS, *CHARACTERS])}
    core = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    core.decoder = tokenizers.decoders.Fuse()
    built = transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token=EOS, pad_token=PAD, clean_up_tokenization_spaces=False
    )
    built.chat_template = CHAT_TEMPLATE
    return built
