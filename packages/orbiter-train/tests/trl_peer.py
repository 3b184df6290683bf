"""Runs in the Python that has TRL: makes a tiny model without a download, and shows its texts.

`trl_peer.py model DIRECTORY` makes the model, `trl_peer.py show DIRECTORY DATASET` prints, as JSON,
each example of a dataset as TRL reads it.
"""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).parents[1] / "src/orbiter/train/_internal/trl_program.py"
TEMPLATE = (
    "{% if tools %}<tools>{{ tools | tojson }}</tools>{% endif %}"
    "{% for m in messages %}<{{ m.role }}>"
    "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<call>{{ c.function.name }}"
    "{{ c.function.arguments | tojson }}</call>{% endfor %}<eos>{% endgeneration %}"
    "{% else %}{{ m.content }}<eos>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def make_model(directory: str) -> None:
    """Save a random model of 40,000 parameters and a tokenizer of single bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    names = ["<pad>", "<eos>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokens = Tokenizer(models.BPE(vocab={name: n for n, name in enumerate(names)}, merges=[]))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokens, pad_token="<pad>", eos_token="<eos>"
    )
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(directory)
    config = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=4096,
    )  # fmt: skip
    Qwen2ForCausalLM(config).save_pretrained(directory)


def show(directory: str, dataset: str) -> list[Any]:
    """Return each example as TRL's own functions read and write it."""
    from transformers import AutoTokenizer
    from trl.data_utils import apply_chat_template, is_conversational

    spec = importlib.util.spec_from_file_location("trl_program", PROGRAM)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    shown = []
    for row in program.table(dataset):
        tools = json.loads(row.pop("tools", None) or "[]")
        conversational = is_conversational(row)
        shown.append([conversational, apply_chat_template(row, tokenizer, tools=tools or None)])
    return shown


if __name__ == "__main__":
    if sys.argv[1] == "model":
        make_model(sys.argv[2])
    else:
        sys.stdout.write(json.dumps(show(sys.argv[2], sys.argv[3])) + "\n")
