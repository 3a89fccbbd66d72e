"""A warmed interpreter that forks one subject per request, and the keeper that stands above each.

The zygote imports an engine once and forks while it has one thread. Each request becomes a keeper,
the reaper of everything below it (daemonised children too), and the subject, which calls the entry.
The keeper tells the controller how the subject ended; when the controller lets go of the keeper's
socket, dead or done, it kills what is left. Run by path under any interpreter >= 3.9.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import os
import select
import signal
import socket
import sys
import threading
import traceback
from contextlib import suppress
from typing import Any, NoReturn

PR_SET_CHILD_SUBREAPER = 36
MESSAGE_MAX = 1 << 17


def main() -> int:
    """argv: descriptor of the controller's socket, then a JSON {preload, distributions}."""
    control = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(control.fileno(), False)
    spec = json.loads(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _make_importable()
    importlib.import_module("crashpoint.inside.tree")
    try:
        modules = [importlib.import_module(name) for name in spec["preload"]]
    except Exception as error:  # noqa: BLE001  whatever an import raises is the answer
        control.send(json.dumps({"error": f"{type(error).__name__}: {error}"}).encode())
        return 1
    control.send(json.dumps(_facts(modules, spec["distributions"])).encode())
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers report to the controller, not here
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, MESSAGE_MAX, 1)
        if not message:
            break
        keeper = socket.socket(fileno=descriptors[0])
        threads = len(os.listdir("/proc/self/task"))
        if threads != 1:
            keeper.send(json.dumps({"error": f"the zygote has {threads} threads"}).encode())
        elif os.fork() == 0:
            try:
                control.close()
                _keep(keeper, json.loads(message))
            finally:
                os._exit(70)
        keeper.close()
    with suppress(ChildProcessError):
        while True:
            os.wait()  # with SIGCHLD ignored: returns when every keeper has ended
    return 0


def _make_importable() -> None:
    """Make `crashpoint.inside` and adapter workflows importable where it is not installed."""
    if importlib.util.find_spec("crashpoint") is None:
        folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        spec = importlib.machinery.ModuleSpec("crashpoint", None, is_package=True)
        spec.submodule_search_locations = [folder]
        sys.modules["crashpoint"] = importlib.util.module_from_spec(spec)


def _facts(modules: list[Any], distributions: list[str]) -> dict[str, Any]:
    versions = {}
    for name in distributions:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {
        "python": sys.version.split()[0],
        "implementation": sys.implementation.name,
        "versions": versions,
        "modules": {m.__name__: getattr(m, "__file__", None) for m in modules},
        "prefixes": sorted({sys.prefix, *sys.path} - {""}, key=len, reverse=True),
    }


def _keep(control: socket.socket, request: dict[str, Any]) -> NoReturn:
    tree = sys.modules["crashpoint.inside.tree"]
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    subject = os.fork()
    if subject == 0:
        control.close()
        _be_subject(request)
    _tell(control, {"keeper": os.getpid(), "subject": subject})
    ended = os.pidfd_open(subject)
    poller = select.poll()
    poller.register(control, select.POLLIN)
    poller.register(ended, select.POLLIN)
    status = None
    while True:
        ready = [fd for fd, _ in poller.poll()]
        if ended in ready:
            poller.unregister(ended)
            _, status = os.waitpid(subject, 0)
            code = os.waitstatus_to_exitcode(status)
            _tell(control, {"ended": code, "leftovers": len(tree.descendants(os.getpid()))})
        if control.fileno() in ready:
            break
    _clear(tree)
    os._exit(0)


def _tell(control: socket.socket, message: dict[str, Any]) -> None:
    with suppress(OSError):
        control.send(json.dumps(message).encode())


def _clear(tree: Any) -> None:
    """Kill everything below this process and reap it."""
    for pid in tree.stop_all(os.getpid()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            os.wait()


def _be_subject(request: dict[str, Any]) -> NoReturn:
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        for number, path in ((0, os.devnull), (1, request["stdout"]), (2, request["stderr"])):
            flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND
            os.dup2(os.open(path, flags, 0o600), number)
        os.environ.update(request["env"])
        os.chdir(request["cwd"])
        if "random" in sys.modules:
            sys.modules["random"].seed()
        module, _, function = request["entry"].partition(":")
        result = getattr(importlib.import_module(module), function)(**request["args"])
        with open(request["result"], "w", encoding="utf-8") as file:
            json.dump(result, file)
        code = 0
    except SystemExit as leave:
        code = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    except BaseException:  # noqa: BLE001  the subject ends here, however it fails
        traceback.print_exc()
    finally:
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # skips exit handlers that were registered before the fork


if __name__ == "__main__":
    sys.exit(main())
