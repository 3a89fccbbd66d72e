"""An app from where its code is: a file, or a module."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from outlive.sdk.app import App

__all__ = ["CannotLoad", "load_app"]


class CannotLoad(RuntimeError):
    """There is no app where one was said to be; the message is one line with the remedy."""


def load_app(target: str) -> App:
    """The app of `FILE.py`, `FILE.py:NAME`, `MODULE` or `MODULE:NAME`; raises CannotLoad.

    Without a name the module must have exactly one App. What the code itself raises while it is
    imported is let through.
    """
    where, _, name = target.rpartition(":") if ":" in target else (target, "", "")
    module = _file(Path(where)) if where.endswith(".py") else _module(where)
    if name:
        found = getattr(module, name, None)
        if not isinstance(found, App):
            raise CannotLoad(f"{target}: {where} has no App {name!r}{_there(module)}")
        return found
    apps = _apps(module)
    if len(set(map(id, apps.values()))) != 1:
        raise CannotLoad(
            f"{target} has {len(apps) or 'no'} App{'s'[: len(apps) != 1]}{_there(module)}: write "
            f'app = App("name") in it, or name one of several: {target}:NAME'
        )
    return next(iter(apps.values()))


def _file(path: Path) -> ModuleType:
    path = path.absolute()
    if not path.is_file():
        raise CannotLoad(f"there is no file {path}: give the app as FILE.py or MODULE")
    # As `python FILE.py` would: what lies beside the file can be imported.
    sys.path.insert(0, str(path.parent))
    name = path.stem
    if name in sys.modules:
        # A file called like something that is loaded already, say `queue.py`.
        name = f"_outlive_app_{name}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CannotLoad(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _module(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise CannotLoad(
                f"there is no module {name!r} here: give the app as FILE.py or MODULE"
            ) from None
        raise
    except (ValueError, TypeError) as error:
        raise CannotLoad(f"{name!r} names no module: {error}") from None


def _apps(module: ModuleType) -> dict[str, App]:
    return {name: found for name, found in vars(module).items() if isinstance(found, App)}


def _there(module: ModuleType) -> str:
    names = ", ".join(sorted(_apps(module)))
    return f" (there: {names})" if names else ""
