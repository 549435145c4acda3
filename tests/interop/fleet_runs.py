"""Creates many different runs from the samples.

    fleet_runs.py DIR NUMBER

Copies runs of sample_runs at random with a fixed seed. Shifts days, multiplies tokens and costs, renames models, and
removes the last lines of some, as if they had died. The expected results come from the board, not from this script.
"""

import datetime
import os
import pathlib
import random
import re
import sys
import time

SAMPLES = pathlib.Path(__file__).parent.parent.parent / "sample_runs"
DAY = re.compile(r"\b20\d\d-\d\d-\d\d(?=[T ])")
TOKENS = re.compile(r'("\w*tokens\w*": ?)(\d+)')
COST = re.compile(r'("\w*cost\w*": ?)(\d+\.\d+)')
MODEL = re.compile(r'("model(?:_id)?": ?")([^"]+)')


def samples():
    """Returns run directories, and sessions in single JSONL files."""
    dirs = {path.parent for name in ("manifest.json", "steps.jsonl") for path in SAMPLES.rglob(name)}
    lines = {path for path in (SAMPLES / "tools").rglob("*.jsonl")}
    return sorted(dirs) + sorted(lines)


def varied(text, chance, keep_lines):
    shift = datetime.timedelta(days=chance.randrange(60))
    factor = chance.choice([1, 1, 2, 3, 7])
    size = chance.choice(["small", "large", "large"])

    def moved(day):
        return (datetime.date.fromisoformat(day[0]) + shift).isoformat()

    text = DAY.sub(moved, text)
    text = TOKENS.sub(lambda found: found[1] + str(int(found[2]) * factor), text)
    text = COST.sub(lambda found: found[1] + repr(float(found[2]) * factor), text)
    text = MODEL.sub(lambda found: f"{found[1]}{found[2]}-{size}" if found[2] != "unknown" else found[0], text)
    if keep_lines is not None:
        lines = text.splitlines(keepends=True)
        text = "".join(lines[: max(1, int(len(lines) * keep_lines))])
    return text


def make(root, number):
    root = pathlib.Path(root)
    chance = random.Random(12)
    known = samples()
    for n in range(number):
        sample = chance.choice(known)
        state = chance.getrandbits(64)
        keep = chance.uniform(0.2, 0.95) if chance.random() < 0.3 else None
        place = root / f"{n // 500:03}" / f"{n:06}"
        place.mkdir(parents=True)
        for path in sorted(sample.iterdir()) if sample.is_dir() else [sample]:
            if path.is_file() and path.suffix in (".json", ".jsonl"):
                # All files of a run are varied in the same way.
                lines = keep if path.suffix == ".jsonl" else None
                text = varied(path.read_text(encoding="utf-8", errors="surrogateescape"), random.Random(state), lines)
                (place / path.name).write_text(text, encoding="utf-8", errors="surrogateescape")


def age(root):
    """Makes all files a day old. Whether a run without an end may still be running depends on the age of its files, so it could
    change between two reads."""
    then = time.time() - 86_400
    for path in pathlib.Path(root).rglob("*"):
        os.utime(path, (then, then))


if __name__ == "__main__":
    make(sys.argv[1], int(sys.argv[2]))
