"""`make check-peers`: what this project says of other frameworks, run with those frameworks."""

import asyncio
import sys

import features
from pages import PAGES, differences


def main() -> int:
    """Run everything, write bench/features.json, and say what is not as it is told."""
    wrong = [line for name in PAGES for line in asyncio.run(differences(name))]
    answers = features.collected()
    wrong += features.mistakes(answers)
    features.write(answers)
    print("\n".join(wrong) or f"{', '.join(PAGES)}: both sides of the pages print the same")
    print(f"{len(answers['features'])} features, asked of {len(answers['versions'])} others")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
