"""The measuring instruments: complexity and lines of functions whose branches are counted by hand, and a tracer of known code."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tools.complexity import Function, count
from tools.density import LARGEST_FILE, main
from tools.trace_step import Tracer

BODIES = [
    ("return 1", 1),
    ("if a:\n    return 1\nelif b:\n    return 2\nelse:\n    return 3", 3),
    ("return 1 if a else 2", 2),
    ("return a and b or c", 3),
    ("return a and b and c", 3),
    ("for x in a:\n    pass\nelse:\n    b = 1", 3),
    ("while a:\n    break", 2),
    ("try:\n    a()\nexcept KeyError:\n    b()\nexcept ValueError:\n    c()\nelse:\n    a()\nfinally:\n    b()", 4),
    ("try:\n    a()\nexcept* KeyError:\n    b()", 2),
    ("with a:\n    b()", 1),
    ("assert a", 2),
    ("assert all(x for x in a)", 3),
    ("return [x for y in a if y if b for x in y]", 5),
    ("return {x: 1 for x in a}, {x for x in a}, sum(x for x in a)", 4),
    ("return [x if x else 1 for x in a if b or c]", 5),
    ("match a:\n    case 1:\n        b()\n    case [x, y]:\n        c()\n    case _:\n        a()", 3),
    ("match a:\n    case 1 | 2:\n        b()", 2),
    ("return lambda x: 1 if x else 2", 2),
    ("def inner():\n    return 1 if a else 2\nreturn inner", 1),
]


def _function(body: str) -> Function:
    lines = "\n".join("    " + line for line in body.splitlines())
    return count(f"def f(a, b, c):\n{lines}\n").functions[0]


@pytest.mark.parametrize(("body", "expected"), BODIES, ids=[body.replace("\n", "; ") for body, _ in BODIES])
def test_complexity_is_one_and_the_branches(body: str, expected: int) -> None:
    assert _function(body).complexity == expected


def test_lines_of_code_have_neither_docstring_nor_comments_nor_blanks_nor_those_of_nested_functions() -> None:
    text = '''
        """A module."""


        class Box:
            """A class."""

            @property
            def size(
                self,
            ) -> int:  # why
                """What it is,

                in three lines."""

                # a comment
                text = """two
                lines"""

                def nested() -> int:
                    return 1  # type: ignore[x]

                return len(text) + nested()
    '''
    source = count(dedent(text))
    assert [(one.name, one.line, one.lines) for one in source.functions] == [
        ("Box.size", 9, 6),
        ("Box.size.nested", 20, 2),
    ]
    assert source.comments == 2  # what is meant for mypy is not meant for a reader


DENSE = "def dense(a):\n    return [x if x else 1 for x in a if x and a or x and not a for y in x if y]\n"
COMPLEX = "def complex(a):\n" + "    if a:\n        a()\n" * 11
HOPELESS = "def hopeless(a):\n" + "    if a:\n        a()\n" * 16
PLAIN = ("def plain(a):\n" + "    a += 1\n" * 10) * 30


def _check(folder: Path, code: str, exceptions: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    package = folder / "pack"
    package.mkdir(exist_ok=True)
    (package / "code.py").write_text(code + PLAIN)
    (folder / "exceptions.yaml").write_text(exceptions)
    status = main([str(package), "--check", "--exceptions", str(folder / "exceptions.yaml")])
    return status, capsys.readouterr().err.splitlines()


def test_a_dense_or_complex_function_needs_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = _check(tmp_path, DENSE + COMPLEX, "{}", capsys)
    assert status == 1
    assert [line.split(";")[0] for line in said] == [
        "pack/code.py:1 dense 9 4.50: dense",
        "pack/code.py:3 complex 12 0.52: above complexity 10",
    ]
    reasons = "pack.code.dense: a rule of a game\npack.code.complex: one line per case\n"
    assert _check(tmp_path, DENSE + COMPLEX, reasons, capsys) == (0, [])


def test_a_reason_that_nothing_needs_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = _check(tmp_path, "", "pack.code.plain: it was dense once\n", capsys)
    assert (status, said) == (1, ["density.yaml: pack.code.plain needs no exception any longer; take it out"])


def test_an_exception_without_a_reason_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = _check(tmp_path, DENSE, "pack.code.dense:\n", capsys)
    assert status == 2
    assert "pack.code.dense has no reason" in said[0]


def test_no_reason_helps_above_15_branches_or_in_a_file_that_is_too_long(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, said = _check(tmp_path, HOPELESS + "\n" * LARGEST_FILE, "pack.code.hopeless: why not\n", capsys)
    assert status == 1
    assert [line.split("; ")[1] for line in said] == ["at most 15, with or without a reason", "at most 400"]


def test_more_than_ten_dense_functions_are_too_many_whatever_the_reasons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    functions = [DENSE.replace("dense", f"dense{n}") for n in range(11)]
    reasons = [f"pack.code.dense{n}: why\n" for n in range(11)]
    ten = _check(tmp_path, "".join(functions[:10]), "".join(reasons[:10]), capsys)
    eleven = _check(tmp_path, "".join(functions), "".join(reasons), capsys)
    assert ten == (0, [])
    assert eleven == (1, ["11 dense functions; at most 10 (--list dense)"])


def test_dense_functions_are_listed_with_their_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "code.py").write_text(PLAIN + DENSE)
    assert main([str(tmp_path), "--list", "dense"]) == 0
    assert capsys.readouterr().out == f"{tmp_path.name}/code.py:331 dense 9 4.50\n"


def test_the_tracer_counts_each_file_function_and_line_once_and_only_those_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "traced").mkdir()
    (tmp_path / "traced" / "__init__.py").write_text("")
    (tmp_path / "traced" / "first.py").write_text(
        dedent("""
            from json import dumps

            from traced.second import Second

            def start(times):
                for _ in range(times):
                    Second().act()
                if times > 100:
                    dumps("never")
                return dumps("outside")
        """)
    )
    (tmp_path / "traced" / "second.py").write_text(
        dedent("""
            class Second:
                def act(self):
                    return [1]

                def idle(self):
                    return [2]
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    start = importlib.import_module("traced.first").start
    before = sys.gettrace()
    with Tracer(tmp_path / "traced") as tracer:
        start(3)
    assert sys.gettrace() is before
    start(1)  # no longer looked at
    assert tracer.files == ["first.py", "second.py"]
    assert list(tracer.functions) == [("first.py", "start"), ("second.py", "Second.act")]
    assert sorted(tracer.lines) == [("first.py", n) for n in (7, 8, 9, 11)] + [("second.py", 4)]


COVERED = {
    "pack/__init__.py": "",
    "pack/code.py": "def quick():\n    return 1\n\n\ndef slow():\n    a = 2\n    return a\n",
    "pack/room/__init__.py": "",
    "pack/room/never.py": "a = 1\nb = 2\n",
    "conftest.py": """
        from pathlib import Path

        from tools.quick_coverage import QuickCoverage

        def pytest_configure(config):
            config.addinivalue_line("markers", "slow: slow")
            plugin = QuickCoverage(Path("seen").resolve(), Path("pack").resolve(), measures=True)
            config.pluginmanager.register(plugin)

        def pytest_addoption(parser):
            parser.addoption("--coverage-html", action="store_true")
    """,
    "test_both.py": """
        import pytest
        from pack.code import quick, slow

        def test_quick():
            assert quick() == 1

        @pytest.mark.slow
        def test_slow():
            assert slow() == 2

        def test_quick_again():
            assert quick() == 1
    """,
}


def test_coverage_is_that_of_the_quick_tests_and_of_files_that_nothing_imports(tmp_path: Path) -> None:
    for name, text in COVERED.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(dedent(text))
    ours = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ours)}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert "3 passed" in done.stdout, done.stdout + done.stderr
    report = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "pack/*.py 3 of 5 lines 60.0%" in report  # two `def`, and the line of quick()
    assert "pack/room 0 of 2 lines 0.0%" in report
    assert "all 3 of 7 lines 42.9%" in report


@pytest.mark.slow
def test_a_step_on_a_users_dict_env_runs_through_more_files_than_on_a_native_one() -> None:
    from tools.trace_step import ENVS, trace_env

    native, own = (trace_env(ENVS[name], "step", "ppo") for name in ("native", "dict"))
    assert {"training/rounds.py", "envs/games/two_step.py"} <= set(native.files)
    assert len(native.files) < len(own.files)
    whole = trace_env(ENVS["native"], "iteration", "ppo")
    assert set(native.functions) <= set(whole.functions)
