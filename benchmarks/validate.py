"""`tenter hooks validate` in a fresh process against one that only imports msgspec, PyYAML and click, in turn.

`python -m benchmarks.validate`. The project is `examples/fix-tests`.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROUNDS = 20
EXAMPLE = Path(__file__).parent.parent / "examples" / "fix-tests"
VALIDATE = (str(Path(sys.executable).with_name("tenter")), "hooks", "validate")
BARE = (sys.executable, "-c", "import msgspec, yaml, click")


def measure(rounds: int = ROUNDS) -> dict[str, float]:
    """Seconds of each, and the ratio."""
    validate, bare = list[float](), list[float]()
    with tempfile.TemporaryDirectory() as folder:
        project = shutil.copytree(EXAMPLE, Path(folder, "project"))
        for _ in range(rounds):
            validate.append(_seconds(VALIDATE, project))
            bare.append(_seconds(BARE, project))
    return {
        "validate_seconds": median(validate),
        "bare_imports_seconds": median(bare),
        "validate_to_bare_imports": median(validate) / median(bare),
    }


def _seconds(command: tuple[str, ...], folder: Path) -> float:
    began = time.perf_counter()
    subprocess.run(command, cwd=folder, capture_output=True, check=True)
    return time.perf_counter() - began


def main() -> None:
    for name, figure in measure().items():
        print(f"{name:40} {figure:.4g}")


if __name__ == "__main__":
    main()
