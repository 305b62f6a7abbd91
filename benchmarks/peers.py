"""Runs the peers' harness with the engine as one of its peers.

usage: SAGENTS_BENCH=<the harness's folder> python benchmarks/peers.py S1 S1s S4 [--reps N] …

The arguments are those of the harness's `bench.py`. The harness is copied, so that its own folder
stays as it is. See README.md.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PEERS = "PEERS = {\n"


def prepare(harness: Path, folder: Path) -> Path:
    """Return a copy of the harness that knows the engine."""
    copy = folder / "bench"
    shutil.copytree(harness, copy, ignore=shutil.ignore_patterns("results", "__pycache__"))
    for path in copy.rglob("*"):
        path.chmod(path.stat().st_mode | 0o200)
    copy.chmod(0o700)
    (copy / "adapters").chmod(0o700)
    shutil.copy(HERE / "adapters" / "sagents.py", copy / "adapters" / "sagents.py")
    bench = copy / "bench.py"
    text = bench.read_text()
    if PEERS not in text:
        raise SystemExit(f"{harness} is not the harness that is expected: no list of peers in it")
    bench.write_text(text.replace(PEERS, PEERS + '    "sagents": "sagents",\n', 1))
    return copy


def main() -> int:
    harness = os.environ.get("SAGENTS_BENCH")
    if not harness:
        raise SystemExit("SAGENTS_BENCH has to name the harness's folder")
    with tempfile.TemporaryDirectory() as folder:
        copy = prepare(Path(harness), Path(folder))
        results = os.environ.get("PEERBENCH_RESULTS", str(HERE.parent / "var" / "peers"))
        environment = {**os.environ, "PEERBENCH_RESULTS": str(Path(results).resolve())}
        command = [sys.executable, str(copy / "bench.py"), *sys.argv[1:]]
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
