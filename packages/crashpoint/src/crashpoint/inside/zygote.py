"""A warmed interpreter that forks one subject per request, and the keeper that stands above each.

The zygote imports an engine once and forks while it has one thread. Each request becomes a keeper,
the reaper of everything below it (daemonised children too), and the subject, which calls the entry.
The keeper tells the controller how the subject ended; when the controller lets go of the keeper's
socket, dead or done, it kills what is left. Should a keeper itself be killed, the zygote inherits
its tree and kills that. Run by path under any interpreter >= 3.9.
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
LINE_MAX = 1000


def main() -> int:
    """argv: descriptor of the controller's socket, then a JSON {preload, distributions, path}."""
    control = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(control.fileno(), False)
    spec = json.loads(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _make_importable(spec["path"])
    importlib.import_module("crashpoint.inside.tree")
    try:
        modules = [importlib.import_module(name) for name in spec["preload"]]
    except BaseException as error:  # noqa: BLE001  whatever an import raises is the answer
        line = " ".join(f"{type(error).__name__}: {error}".split())
        _tell(control, {"error": line[:LINE_MAX]})
        return 1
    _tell(control, _facts(modules, spec["distributions"]))
    gc.collect()
    gc.freeze()
    _adopt_orphans()
    _serve(control)
    return 0


def _serve(control: socket.socket) -> None:
    """Fork what the controller asks for until it hangs up and the last keeper has ended."""
    keepers: dict[int, int] = {}  # pidfd -> pid
    poller = select.poll()
    poller.register(control, select.POLLIN)
    hung_up = False
    while keepers or not hung_up:
        for fd, _ in poller.poll():
            if fd in keepers:
                poller.unregister(fd)
                os.close(fd)
                _bury(keepers.pop(fd), set(keepers.values()))
                continue
            message, descriptors, _, _ = socket.recv_fds(control, MESSAGE_MAX, 1)
            if not message:
                hung_up = True
                poller.unregister(control)
                continue
            pid = _fork_keeper(control, json.loads(message), descriptors[0], tuple(keepers))
            if pid:
                keeper = os.pidfd_open(pid)
                keepers[keeper] = pid
                poller.register(keeper, select.POLLIN)


def _fork_keeper(
    control: socket.socket, request: dict[str, Any], channel: int, others: tuple[int, ...]
) -> int:
    """Returns the keeper's process id, or 0 when the channel was told why there is none."""
    with socket.socket(fileno=channel) as keeper:
        threads = len(os.listdir("/proc/self/task"))
        if threads != 1:
            _tell(keeper, {"error": f"the zygote has {threads} threads"})
            return 0
        pid = os.fork()
        if pid == 0:
            try:
                control.close()
                for fd in others:
                    os.close(fd)
                _keep(keeper, request)
            finally:
                os._exit(70)
    return pid


def _bury(keeper: int, others: set[int]) -> None:
    """Reap a keeper; one that did not end by itself has left its tree to this process."""
    status = os.waitpid(keeper, 0)[1]
    if status != 0:
        # Parents come first, so each is a child of this process by the time it is waited for.
        for pid in sys.modules["crashpoint.inside.tree"].kill_all(os.getpid(), spare=others):
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _make_importable(path: list[str]) -> None:
    """Make `crashpoint.inside` and adapter workflows importable where it is not installed."""
    here = os.path.dirname(os.path.abspath(__file__))
    # What stands beside this file has plain names, and must not be taken for an engine's modules.
    sys.path[:] = [folder for folder in sys.path if folder != here] + path
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
    os.setsid()
    _adopt_orphans()
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


def _adopt_orphans() -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _clear(tree: Any) -> None:
    """Kill everything below this process and reap it."""
    tree.kill_all(os.getpid())
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
            file.write(json.dumps(result) + "\n")  # the line break says that it is whole
        code = 0
    except SystemExit as leave:
        if leave.code is None or isinstance(leave.code, int):
            code = (leave.code or 0) & 0xFF
        else:
            sys.stderr.write(f"{leave.code}\n")
    except BaseException:  # noqa: BLE001  the subject ends here, however it fails
        traceback.print_exc()
    finally:
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # closed by the entry: nothing is left to be written
                stream.flush()
        os._exit(code)  # skips exit handlers that were registered before the fork


if __name__ == "__main__":
    sys.exit(main())
