"""Trains tiny models with a real TRL: `make check-trl`.

TRL and torch are several gigabytes, so they are no part of the tests; this is run by hand when
formats or TRL change. It needs a Python with TRL, by default the one that `make check-trl` makes.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from orbiter.train import (
    DatasetFile,
    Trajectory,
    TrlTrainer,
    preference_pairs,
    wait,
    write_preferences,
    write_sft,
)
from orbiter.types import AssistantMessage, SystemMessage, ToolCall, ToolResult, UserMessage

PEER = Path(__file__).with_name("trl_peer.py")
TINY = {"max_steps": 2, "use_cpu": True, "per_device_train_batch_size": 2, "max_length": 512}


def tool(name: str) -> dict[str, Any]:
    """Return a tool whose only parameter has its name."""
    parameters = {"type": "object", "properties": {name: {"type": "string"}}}
    function = {"name": name, "description": name, "parameters": parameters}
    return {"type": "function", "function": function}


def example(n: int, answer: str = "Here.", score: float = 1.0) -> Trajectory:
    """Return a run with a tool call; odd ones use another tool than even ones."""
    name = "find" if n % 2 else "look"
    call = ToolCall(id="c", name=name, arguments=json.dumps({name: str(n)}))
    messages = [
        SystemMessage(content="Be brief."),
        UserMessage(content=f"{n}?"),
        AssistantMessage(tool_calls=[call]),
        ToolResult(tool_call_id="c", tool_name=name, content="x"),
        AssistantMessage(content=answer),
    ]
    return Trajectory(messages=messages, tools=[tool(name)], scores={"exact": score})


def datasets(home: Path) -> list[tuple[DatasetFile, dict[str, Any]]]:
    """Write one dataset of each kind, and say how to train on it."""
    plain = Trajectory(messages=[UserMessage(content="Hi"), AssistantMessage(content="Hello")])
    runs = [*(example(n) for n in range(8)), plain]
    both = [example(n, text, mark) for n in range(8) for text, mark in (("Yes", 1.0), ("No", 0.0))]
    pairs = preference_pairs(both, "exact")
    return [
        (write_sft(runs, home / "all.jsonl", format="trl"), {"assistant_only_loss": True}),
        (write_sft(runs, home / "last.jsonl", format="trl", train_on="last"), {}),
        (write_preferences(pairs, home / "pairs.jsonl", format="trl"), {}),
    ]


def check_texts(python: Path, model: Path, data: DatasetFile) -> None:
    """See that TRL reads what was written, and nothing that the table added."""
    done = subprocess.run(
        [python, PEER, "show", model, data.path], check=True, capture_output=True, text=True
    )
    shown = json.loads(done.stdout.splitlines()[-1])
    assert len(shown) == data.examples
    for number, (conversational, texts) in enumerate(shown):
        whole = "".join(texts.values())
        assert conversational, data.path
        assert "null" not in whole, whole
        assert "None" not in whole, whole
        if data.kind == "sft" and number < 8:
            name = "find" if number % 2 else "look"
            assert f'<call>{name}{{"{name}": "{number}"}}</call>' in whole, whole


async def main() -> None:
    """Make the model, check the texts, train on each dataset."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", type=Path, required=True, help="a Python that has TRL")
    # where it is, not what it links to: a virtual environment is known by its path
    python = parser.parse_args().python.absolute()
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        model = home / "tiny"
        subprocess.run([python, PEER, "model", model], check=True, capture_output=True)
        for data, arguments in datasets(home):
            check_texts(python, model, data)
            began = time.monotonic()
            trainer = TrlTrainer(
                str(model), directory=home / "jobs", python=python, arguments={**TINY, **arguments}
            )
            job = await trainer.start(data)
            done = await wait(trainer, job.id, seconds=0.5)
            assert (Path(done.model or "") / "model.safetensors").is_file()
            took = time.monotonic() - began
            sys.stdout.write(f"{data.path.name}: trained in {took:.0f} s\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
