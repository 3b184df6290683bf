"""A process that evaluates and marks each run in a file; it is there to be killed."""

import asyncio
import os
import sys
from pathlib import Path

from orbiter.eval import Case, Evaluator, ExactMatch


def mark(directory: Path, word: str, case_id: str) -> None:
    """Append a line in one write: a killed process leaves whole lines."""
    file = os.open(directory / "marks", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{word} {os.getpid()} {case_id}\n".encode())
    os.close(file)


async def main(directory: Path, cases: int) -> None:
    async def target(case: Case) -> str:
        mark(directory, "began", case.id)
        await asyncio.sleep(0.002)
        mark(directory, "ended", case.id)
        # long lines, so that a kill can tear one
        return case.id * 2_000

    dataset = [Case(id=str(n), input="?", expected=str(n) * 2_000) for n in range(cases)]
    evaluator = Evaluator(target, [ExactMatch()], concurrency=4)
    await evaluator.run(dataset, journal=directory / "run.jsonl")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
