"""Download toolz, break `partition_all`, let the team mend it, and let toolz's own tests judge.

`make example` runs it.  Downloading the package is the only thing that needs the package index.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
PACKAGE, VERSION = "toolz", "1.2.0"
MODULE = Path("toolz/itertoolz.py")
RIGHT, BROKEN = "            lo, hi = 0, n\n", "            lo, hi = 0, n - 2\n"
TESTS = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "toolz/tests")
CONFIG = """\
repository:
  verification_command: {command}
providers:
  scripted:
    script: script.yaml
"""


def main() -> int:
    """Run the example in a temporary folder; return 0 when the team has mended the package."""
    with tempfile.TemporaryDirectory(prefix="teams-runtime-example-") as folder:
        workspace = unpack(Path(folder))
        head = commit_broken(workspace)
        failing = run(workspace, TESTS, accept=(1,))
        print(f"{PACKAGE} {VERSION} with one line broken: {last_line(failing)}", flush=True)
        done = run(workspace, (sys.executable, "-m", "teams_runtime", "run", *request(), "--json"), show_progress=True)
        outcome = json.loads(done.stdout)
        run(workspace, ("git", "merge", "--quiet", "--ff-only", outcome["branch"]))
        print(f"{outcome['commit'][:12]} on {outcome['branch']}: {last_line(run(workspace, TESTS))}")
        print(run(workspace, ("git", "diff", head, outcome["commit"])).stdout)
        restored = (workspace / MODULE).read_text(encoding="utf-8").count(RIGHT) == 1
    return 0 if outcome["status"] == "completed" and restored else 1


def unpack(folder: Path) -> Path:
    """Download the package's sources and return their folder."""
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps")
    run(folder, (*pip, "--no-binary", ":all:", f"{PACKAGE}=={VERSION}", "--dest", str(folder)))
    archive = next(folder.glob(f"{PACKAGE}-*.tar.gz"))
    with tarfile.open(archive) as sources:
        sources.extractall(folder, filter="data")
    return folder / f"{PACKAGE}-{VERSION}"


def commit_broken(workspace: Path) -> str:
    """Break one line, make the tree a git repository with a config and a script, and return its first commit."""
    module = workspace / MODULE
    text = module.read_text(encoding="utf-8")
    if text.count(RIGHT) != 1:
        raise SystemExit(f"{module}: the line to break must be there once")
    module.write_text(text.replace(RIGHT, BROKEN), encoding="utf-8")
    (workspace / ".gitignore").write_text("__pycache__/\nteam_runtime.yaml\nscript.yaml\n", encoding="utf-8")
    script = (HERE / "script.yaml").read_text(encoding="utf-8").replace("@PYTHON@", sys.executable)
    (workspace / "script.yaml").write_text(script, encoding="utf-8")
    (workspace / "team_runtime.yaml").write_text(CONFIG.format(command=json.dumps(list(TESTS))), encoding="utf-8")
    run(workspace, ("git", "init", "--quiet", "--initial-branch=main"))
    run(workspace, ("git", "add", "--all"))
    identity = ("-c", "user.name=example", "-c", "user.email=example@localhost")
    run(workspace, ("git", *identity, "commit", "--quiet", "--message", f"{PACKAGE} {VERSION} with a defect"))
    return run(workspace, ("git", "rev-parse", "HEAD")).stdout.strip()


def request() -> tuple[str, str, str]:
    """Return the request as arguments of `teams-runtime run`."""
    scope = (HERE / "request.md").read_text(encoding="utf-8").partition("\n")[0]
    return scope, "--body-file", str(HERE / "request.md")


def run(
    folder: Path, command: Sequence[str], *, accept: Sequence[int] = (0,), show_progress: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; stop the example when it ends in another way than accepted."""
    errors = None if show_progress else subprocess.PIPE
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True, timeout=600, check=False
    )
    if done.returncode not in accept:
        raise SystemExit(f"{command[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr or ''}")
    return done


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last line that a program printed: the summary of a test run."""
    return done.stdout.strip().splitlines()[-1]


if __name__ == "__main__":
    sys.exit(main())
