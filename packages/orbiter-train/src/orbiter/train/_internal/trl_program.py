"""The program of one local training; it needs TRL and nothing of Orbiter.

`python trl_program.py DIRECTORY` reads `job.json` there and leaves the trained model and, whatever
happens, `ended.json`.
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any


def train(job: dict[str, Any]) -> None:
    """Train as the job says and save the model."""
    # by name: they are not there where Orbiter is checked
    trl: Any = importlib.import_module("trl")
    tokenizer: Any = importlib.import_module("transformers").AutoTokenizer
    kind = "SFT" if job["kind"] == "sft" else "DPO"
    config, trainer = getattr(trl, f"{kind}Config"), getattr(trl, f"{kind}Trainer")
    output = job["output"]
    arguments = {"report_to": "none", "save_strategy": "no", **job["arguments"]}
    tuning = trainer(
        model=job["model"],
        args=config(output_dir=output, **arguments),
        processing_class=tokenizer.from_pretrained(job["model"]),
        train_dataset=table(job["data"]),
        eval_dataset=table(job["validation"]) if job["validation"] else None,
    )
    tuning.train()
    tuning.save_model(output)


def table(path: str) -> Any:
    """Return a file's examples as a table.

    Columns that hold messages are JSON in it: with plain columns the arguments of one tool would
    get the (empty) fields of all others, and the model would learn those.
    """
    datasets: Any = importlib.import_module("datasets")
    rows = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    names = sorted({name for row in rows for name in row})
    messages, text = datasets.List(datasets.Json()), datasets.Value("string")
    kinds = {name: text if name == "tools" else messages for name in names}
    columns = {name: [row.get(name) for row in rows] for name in names}
    return datasets.Dataset.from_dict(columns, features=datasets.Features(kinds))


def main(home: Path) -> int:
    """Train and write how it ended."""
    job = json.loads((home / "job.json").read_text(encoding="utf-8"))
    try:
        train(job)
        ended = {"state": "succeeded", "model": job["output"]}
    except ModuleNotFoundError as error:
        told = f"{error.name} is not installed for {sys.executable}: install orbiter-train[trl]"
        ended = {"state": "failed", "error": told}
    except Exception as error:
        # the whole of it goes to the log, by the interpreter, below
        ended = {"state": "failed", "error": f"{type(error).__name__}: {error}"}
        _end(home, ended)
        raise
    _end(home, ended)
    return 0 if ended["state"] == "succeeded" else 1


def _end(home: Path, ended: dict[str, str]) -> None:
    new = home / "ended.json.new"
    new.write_text(json.dumps(ended), encoding="utf-8")
    new.replace(home / "ended.json")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
