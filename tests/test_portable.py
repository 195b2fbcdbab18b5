"""No call that only some systems have outside of a place that asks for it first; and a run without all of them.

The first half reads the source of the package. The second half imports every module, trains and resumes in a process from
which these names were taken before anything of marl was imported, once as Windows and once as macOS lacks them.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

import marl

PACKAGE = Path(marl.__file__).parent

# What Windows has not, by module (docs.python.org: "Availability: Unix").
MISSING_MODULES = (
    "fcntl",
    "grp",
    "posix",
    "pty",
    "pwd",
    "resource",
    "readline",
    "syslog",
    "termios",
    "tty",
    "crypt",
    "nis",
)
MISSING: dict[str, tuple[str, ...]] = {
    "os": (
        "fork", "forkpty", "getuid", "geteuid", "getgid", "getegid", "getgroups", "setuid", "setgid", "setsid", "getsid",
        "setpgid", "getpgid", "getpgrp", "killpg", "chown", "fchown", "lchown", "fchmod", "mkfifo", "mknod", "getloadavg",
        "sched_getaffinity", "sched_setaffinity", "sched_yield", "nice", "getpriority", "setpriority", "uname", "sysconf",
        "pathconf", "statvfs", "fstatvfs", "wait", "wait3", "wait4", "waitid", "WNOHANG", "pidfd_open", "pread", "pwrite",
        "sendfile", "register_at_fork", "posix_spawn", "openpty", "ttyname", "ctermid", "sync", "fdatasync", "mkdirat",
        "memfd_create", "posix_fallocate", "posix_fadvise", "lockf", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC",
        "O_SYNC", "EX_OK",
    ),
    "signal": (
        "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGHUP", "SIGQUIT", "SIGCHLD", "SIGPIPE", "SIGCONT", "SIGSTOP", "SIGTSTP",
        "alarm", "setitimer", "getitimer", "ITIMER_REAL", "pause", "pthread_sigmask", "pthread_kill", "SIG_BLOCK",
        "SIG_UNBLOCK", "SIG_SETMASK", "sigwait", "siginterrupt",
    ),
    "select": ("poll", "epoll", "kqueue", "devpoll", "POLLIN"),
    "socket": ("AF_UNIX", "SO_REUSEPORT", "socketpair", "send_fds", "recv_fds", "MSG_DONTWAIT"),
    "time": ("tzset", "clock_gettime"),
}  # fmt: skip
# What macOS has not of these.
MISSING_ON_MACOS: dict[str, tuple[str, ...]] = {
    "os": ("sched_getaffinity", "sched_setaffinity", "pidfd_open", "memfd_create", "posix_fallocate", "posix_fadvise"),
    "select": ("epoll",),
    "signal": (),
}
# What is there, and does something else: os.kill ends any process on Windows, os.rename does not replace a file.
MEANS_SOMETHING_ELSE = {"os": ("kill", "rename"), "asyncio": ("add_signal_handler",)}
# Left there in the second half: the standard library of this system waits for its processes by them.
OF_PYTHON_ITSELF = {"os": ("WNOHANG",), "select": ("poll", "POLLIN"), "signal": ("SIGKILL",)}
SYSTEM_FOLDERS = ("/proc", "/sys/", "/dev/", "/tmp", "/etc", "/var")
# Places that are right without a question, and why.
RIGHT = {
    ("runs/atomic.py", "os.rename"): "folders, onto a name that is free or with an error that is awaited",
    ("runs/checkpoint.py", "os.rename"): "a folder, onto a new name",
    ("runs/resume.py", "os.rename"): "a folder, into one that was made for it",
    ("sharing/bundle.py", "os.rename"): "a folder, onto a name that was made free",
    (
        "rollout/ray_instance.py",
        "/tmp",
    ): "where the temporary folder of the system has too long a name for a socket, as on macOS",
    ("memory.py", "/proc/self/cgroup"): "inside of suppress(OSError)",
    ("memory.py", "/sys/fs/cgroup"): "only folders that are there are looked at",
}


def uses(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Every place that needs something of a system, and what it is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            yield from ((node, name) for name in names if name.split(".")[0] in MISSING_MODULES)
            if isinstance(node, ast.ImportFrom):
                yield from (
                    (node, f"{node.module}.{alias.name}") for alias in node.names if _rare(node.module, alias.name)
                )
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and _rare(node.value.id, node.attr):
            yield node, f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(SYSTEM_FOLDERS):
            yield node, node.value


def _rare(module: str | None, name: str) -> bool:
    return name in MISSING.get(module or "", ()) or name in MEANS_SOMETHING_ELSE.get(module or "", ())


def asks(test: ast.AST) -> bool:
    """Whether a condition asks what the system has."""
    for node in ast.walk(test):
        if isinstance(node, ast.Name) and node.id == "hasattr":
            return True
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.platform", "os.name"):
            return True
    return False


def catches(handler: ast.ExceptHandler) -> bool:
    told = ast.unparse(handler.type) if handler.type is not None else "Exception"
    return any(name in told for name in ("ImportError", "ModuleNotFoundError", "AttributeError", "Exception"))


def guarded(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether somebody asked before: by a condition around it, one before it that leaves, or an error that is caught."""
    while node in parents:
        child, node = node, parents[node]
        if isinstance(node, ast.If | ast.IfExp) and child is not node.test and asks(node.test):
            return True
        if isinstance(node, ast.Try) and child in node.body and any(catches(handler) for handler in node.handlers):
            return True
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(block, list) and child in block and _leaves_before(block[: block.index(child)]):
                return True
    return False


def _leaves_before(earlier: list[ast.stmt]) -> bool:
    for statement in earlier:
        leaves: list[ast.stmt] = []
        if isinstance(statement, ast.If) and asks(statement.test):
            leaves = [statement.body[-1]]
        if isinstance(statement, ast.Try):
            leaves = [handler.body[-1] for handler in statement.handlers if catches(handler)]
        if any(isinstance(last, ast.Return | ast.Raise | ast.Continue) for last in leaves):
            return True
    return False


def unguarded(code: str) -> list[str]:
    """What a module uses without having asked."""
    tree = ast.parse(code)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    return [f"{what} in line {node.lineno}" for node, what in uses(tree) if not guarded(node, parents)]  # type: ignore[attr-defined]


def test_nothing_that_only_some_systems_have_is_used_without_asking_for_it() -> None:
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        name = file.relative_to(PACKAGE).as_posix()
        for what in unguarded(file.read_text(encoding="utf-8")):
            if (name, what.split(" in line ")[0]) not in RIGHT:
                found.append(f"marl/{name}: {what}")
    assert found == []


def test_every_place_that_is_right_without_a_question_is_still_there() -> None:
    there = set()
    for name, _ in RIGHT:
        for what in unguarded((PACKAGE / name).read_text(encoding="utf-8")):
            there.add((name, what.split(" in line ")[0]))
    assert there == set(RIGHT)


@pytest.mark.parametrize(
    "code",
    [
        "import fcntl",
        "from resource import getrlimit",
        "import os\nos.fork()",
        "import signal\nsignal.signal(signal.SIGALRM, None)",
        "import os\nos.kill(1, 0)",
        "open('/proc/self/status')",
        "import os\nif hasattr(os, 'fork'):\n    pass\nelse:\n    pass\nos.fork()",
        "import os\ntry:\n    os.getuid()\nexcept OSError:\n    pass",
        "from signal import SIGKILL",
    ],
)
def test_a_call_of_some_systems_alone_is_found(code: str) -> None:
    assert len(unguarded(code)) == 1


@pytest.mark.parametrize(
    "code",
    [
        "try:\n    import fcntl\nexcept ImportError:\n    fcntl = None",
        "import os\nif hasattr(os, 'fork'):\n    os.fork()",
        "import sys\ndef f():\n    if sys.platform == 'win32':\n        return 1\n    import resource\n    return resource",
        "import os\nx = os.getloadavg() if hasattr(os, 'getloadavg') else None",
        "import os\nflags = getattr(os, 'O_NOFOLLOW', 0)",
    ],
)
def test_a_call_that_was_asked_for_is_not(code: str) -> None:
    assert unguarded(code) == []


# -- without them ------------------------------------------------------------------------------------------------------

TAKEN_AWAY = """
import importlib, os, pkgutil, select, signal, socket, sys, sysconfig, tempfile, time
sysconfig.get_config_vars()  # of this system, before it is called another
import marl.client  # the standard library alone
import torch, gymnasium, numpy, psutil, pydantic, rich, typer, yaml, safetensors.numpy  # others ask the real system

for name in {modules!r}:
    sys.modules[name] = None
for module, names in {missing!r}.items():
    for name in names:
        if hasattr(sys.modules[module], name):
            delattr(sys.modules[module], name)
for name in [name for name in sys.modules if name == "marl" or name.startswith("marl.")]:
    del sys.modules[name]
sys.platform = {platform!r}
"""

IMPORTS = """
import marl
failed = []
for found in pkgutil.walk_packages(marl.__path__, "marl."):
    if found.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(found.name)
    except Exception as error:
        failed.append((found.name, repr(error)))
print("imported", len(sys.modules) > 100, failed)
"""

TRAINS = """
from marl import Trainer
tiny = {"num_envs_per_worker": 4, "learning_starts": 8, "train_batch_size": 8, "fcnet_hiddens": [4], "timesteps_per_iteration": 16,
        "evaluation": {"interval": 0}, "env_timeout_s": None}
with tempfile.TemporaryDirectory() as folder:
    with Trainer("qmix", env="two_step_game", config=tiny) as straight:
        for _ in range(3):
            straight.train()
        wanted = straight.get_weights()
    with Trainer("qmix", env="two_step_game", config=tiny, directory=folder + "/run") as first:
        first.train()
        saved = first.save()
    with Trainer.from_checkpoint(saved) as second:
        second.train()
        second.train()
        found = second.get_weights()
equal = all(numpy.array_equal(found[p][n], wanted[p][n]) for p in wanted for n in wanted[p])
print("resumed", second.iteration, equal)
"""


def run_without(missing: dict[str, tuple[str, ...]], modules: tuple[str, ...], platform: str, code: str) -> str:
    """What the code prints in a process without these names."""
    taken = {}
    for module, names in missing.items():
        taken[module] = [name for name in names if name not in OF_PYTHON_ITSELF.get(module, ())]
    whole = TAKEN_AWAY.format(modules=modules, missing=taken, platform=platform) + dedent(code)
    ended = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("system", ["windows", "macos"])
def test_every_module_is_imported_and_a_run_is_trained_and_resumed_without_what_the_system_lacks(system: str) -> None:
    names, modules, platform = MISSING, MISSING_MODULES, sys.platform
    if system == "macos":
        names, modules, platform = MISSING_ON_MACOS, (), "darwin"
    printed = run_without(names, modules, platform, IMPORTS + TRAINS)
    assert "imported True []" in printed
    assert "resumed 3 True" in printed
