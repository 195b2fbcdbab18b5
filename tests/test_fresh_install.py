"""A plain install into a new environment: nothing is missing there, and nothing that was not asked for is needed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("pyproject.toml", "constraints.txt", "README.md", "LICENSE")  # and marl/, scenarios/, suites/
NOT_ASKED_FOR = (
    "open_spiel",
    "pygambit",
    "mpe2",
    "vmas",
    "lbforaging",
    "imageio-ffmpeg",
    "pytest",
    "hypothesis",
    "mypy",
    "mkdocs",
)
PATIENCE_S = 1_500  # for an install over a slow line
pytestmark = [pytest.mark.slow, pytest.mark.timeout(PATIENCE_S + 300)]
long = pytest.mark.long  # what needs an environment with all packages of its own

WITHOUT_RAY = """
import sys
from marl.cli import main

sys.argv = ["marl", "run", "two_step_game", "--num-workers", "0", "--stop-timesteps", "1000"]
try:
    main()
    code = 0
except SystemExit as stopped:
    code = stopped.code or 0
print("ray was imported:", any(name.partition(".")[0] == "ray" for name in sys.modules))
sys.exit(code)
"""
PSRO = """
env: matrix_game
env_config: {game: rock_paper_scissors}
population: {kind: psro, meta_solver: nash, oracle: ppo, round_timesteps: 256, matches: 100}
algo: {name: ppo, lr: 0.02, gamma: 1.0, train_batch_size: 128, sgd_minibatch_size: 128, num_sgd_iter: 2}
model: {fcnet_hiddens: [8]}
num_envs_per_worker: 32
exploitability: {interval: 2}
evaluation: {interval: 0}
stop: {timesteps_total: 1024}
"""
SEARCH = """
env: two_step_game
algo: {name: ppo, lr: {grid_search: [0.1, 0.01]}, train_batch_size: 32, sgd_minibatch_size: 32}
evaluation: {interval: 0}
stop: {training_iteration: 1}
"""


@dataclass(frozen=True)
class Installation:
    """A virtual environment with marl, and an empty folder to work in."""

    venv: Path
    desk: Path

    def __call__(self, program: str, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run ``marl``, ``python`` or ``pip`` of this environment, in the folder."""
        return subprocess.run(
            [str(self.venv / "bin" / program), *arguments],
            cwd=self.desk, env=surroundings(self.desk), capture_output=True, text=True, timeout=timeout,
        )  # fmt: skip


def surroundings(desk: Path) -> dict[str, str]:
    """What this process was started with, so that settings of pip hold, but no way back to the tree of the tests."""
    left = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")
    kept = {key: value for key, value in os.environ.items() if key not in left}
    return {**kept, "MARL_RESULTS_DIR": str(desk / "results"), "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """``pip install -c constraints.txt .`` from a copy of the sources: building leaves files behind."""
    place = tmp_path_factory.mktemp("fresh")
    copy_sources(place / "source")
    (place / "desk").mkdir()
    subprocess.run([sys.executable, "-m", "venv", str(place / "venv")], check=True, timeout=300)
    found = Installation(place / "venv", place / "desk")
    source = place / "source"
    # Of a gigabyte of packages few modules are imported here: Python compiles these, so that pip need not compile all.
    command = ["install", "--no-compile", "-c", str(source / "constraints.txt"), str(source)]
    done = found("pip", *command, timeout=PATIENCE_S)
    if done.returncode and no_registry(done.stdout + done.stderr):
        pytest.skip("pip reaches no registry, so nothing can be installed")
    assert done.returncode == 0, done.stdout + done.stderr
    yield found
    shutil.rmtree(place / "venv", ignore_errors=True)  # more than a gigabyte


def copy_sources(target: Path) -> None:
    """What an install needs of the repository."""
    shutil.copytree(ROOT / "marl", target / "marl", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("scenarios", "suites"):
        shutil.copytree(ROOT / folder, target / folder)
    for name in SOURCES:
        shutil.copy(ROOT / name, target / name)


def test_a_checkout_installed_in_place_is_found_from_the_folder_around_it(tmp_path: Path) -> None:
    """There the folder of the checkout, which has the package's name, is found first: it must not hide the package."""
    copy_sources(tmp_path / "marl")
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, timeout=300)
    python = str(venv / "bin" / "python")
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "-e", str(tmp_path / "marl")]
    done = subprocess.run(
        command, cwd=tmp_path, env=surroundings(tmp_path), capture_output=True, text=True, timeout=PATIENCE_S
    )
    if done.returncode and no_registry(done.stdout + done.stderr):
        pytest.skip("pip reaches no registry, so nothing can be installed")
    assert done.returncode == 0, done.stdout + done.stderr
    look = "import importlib.util; print(importlib.util.find_spec('marl').origin)"
    found = subprocess.run(
        [python, "-c", look], cwd=tmp_path, env=surroundings(tmp_path), capture_output=True, text=True
    )
    assert found.stdout.strip() == str(tmp_path / "marl" / "marl" / "__init__.py"), found.stderr


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The package alone in a new environment, beside the packages of this one: so only marl has to be installed."""
    place = tmp_path_factory.mktemp("beside")
    copy_sources(place / "source")
    (place / "desk").mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place / "venv")], check=True, timeout=300)
    found = Installation(place / "venv", place / "desk")
    where = found("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip()
    (Path(where) / "packages_of_the_tests.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    python = str(found.venv / "bin" / "python")
    command = ["-m", "pip", "--python", python, "install", "--no-deps", "--ignore-installed", str(place / "source")]
    done = subprocess.run(
        [sys.executable, *command], env=surroundings(place), capture_output=True, text=True, timeout=PATIENCE_S
    )
    if done.returncode and no_registry(done.stdout + done.stderr):
        pytest.skip("pip reaches no registry, so nothing can be installed")
    assert done.returncode == 0, done.stdout + done.stderr
    return found


def assert_complete(installed: Installation) -> None:
    """All files of the package, all scenarios and all suites."""
    where = installed("python", "-c", "import marl; print(marl.__path__[0])")
    assert where.returncode == 0, where.stderr
    package = Path(where.stdout.strip())
    assert installed.venv in package.parents
    here = {path.relative_to(ROOT / "marl") for path in (ROOT / "marl").rglob("*") if "__pycache__" not in path.parts}
    assert {str(path) for path in here if not (package / path).exists()} == set()
    for folder in ("scenarios", "suites"):
        shipped = {file.relative_to(package) for file in (package / folder).rglob("*") if file.is_file()}
        assert shipped == {file.relative_to(ROOT) for file in (ROOT / folder).rglob("*.yaml")}


def assert_runs_without_ray(installed: Installation) -> None:
    done = installed("python", "-c", WITHOUT_RAY)
    assert done.returncode == 0, done.stdout + done.stderr
    *_, results, ray = done.stdout.splitlines()
    assert ray == "ray was imported: False"
    lines = (Path(results.removeprefix("results: ")) / "result.json").read_text().splitlines()
    assert json.loads(lines[-1])["timesteps_total"] >= 1_000


def test_an_installed_package_is_complete(beside: Installation) -> None:
    assert_complete(beside)


def test_an_installed_package_runs_a_shipped_scenario_and_never_imports_ray(beside: Installation) -> None:
    assert_runs_without_ray(beside)


def no_registry(said: str) -> bool:
    """Whether pip failed because nobody answered; not finding a package that nobody has is another failure."""
    broken = re.search(r"Retrying .* after connection broken by", said) is not None
    return broken and ("(from versions: none)" in said or "Max retries exceeded" in said)


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ("Retrying (Retry(total=0)) after connection broken by 'NewConnectionError'\n hatchling>=1.27 (from versions: none)", True),
        ("Retrying (Retry(total=0)) after connection broken by 'ProxyError'\nOSError: HTTPSConnectionPool: Max retries exceeded", True),
        ("Could not find a version that satisfies the requirement gymnasiun>=1.0 (from versions: none)", False),
        ("Could not find a version that satisfies the requirement numpy==99 (from versions: 1.26, 2.4.6)", False),
        ("Retrying (Retry(total=4)) after connection broken by 'ReadTimeout'\nBackendUnavailable: Cannot import 'setuptols'", False),
    ],
)  # fmt: skip
def test_a_failed_install_is_excused_only_where_nobody_answers(said: str, verdict: bool) -> None:
    assert no_registry(said) is verdict


@long
def test_all_modules_are_there_and_all_requirements_are_met(installed: Installation) -> None:
    assert_complete(installed)
    checked = installed("pip", "check")
    assert checked.returncode == 0, checked.stdout


@long
def test_extras_and_test_tools_are_not_there(installed: Installation) -> None:
    listed = {
        row["name"].lower().replace("_", "-") for row in json.loads(installed("pip", "list", "--format=json").stdout)
    }
    assert "marl" in listed
    assert listed & {name.replace("_", "-") for name in NOT_ASKED_FOR} == set()


@long
@pytest.mark.ray
def test_the_doctor_finds_everything_in_order(installed: Installation) -> None:
    done = installed("marl", "doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "everything works"
    assert "ok       a run on a Ray worker" in done.stdout


@long
def test_a_run_without_workers_never_imports_ray(installed: Installation) -> None:
    assert_runs_without_ray(installed)


@long
def test_a_report_solves_kuhn_poker(installed: Installation) -> None:
    done = installed("marl", "report", "kuhn_poker")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"value for player_0 +-0\.05555", done.stdout)
    assert (installed.desk / "report_kuhn_poker" / "report.html").stat().st_size > 1_000


@long
def test_a_population_trains_by_psro(installed: Installation) -> None:
    (installed.desk / "psro.yaml").write_text(PSRO)
    done = installed("marl", "run", "psro.yaml", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["population"]["round"] == 4
    assert last["population"]["members"] == {"player_0": 5, "player_1": 5}
    assert last["exploitability"]["bound"] == "exact"


@long
def test_tuning_without_its_extra_says_what_to_install(installed: Installation) -> None:
    (installed.desk / "search.yaml").write_text(SEARCH)
    done = installed("marl", "tune", "search.yaml")
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith("error: tuning needs Ray Tune, which is not completely installed")
    assert "pip install 'ray[tune]'" in done.stderr
    assert not (installed.desk / "results" / "search").exists()
