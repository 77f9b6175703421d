"""Compiled kernels, cached on disk by their sources. A changed kernel also recompiles its callers.

numba's own cache checks only the file of the function, so a caller could use an old callee. Here the cache folder has a
digest of numba's version, of all files with kernels, and of the files from which they import constants.

numba also numbers the files of a kernel's signatures in an index. Two processes that compile different signatures at
once can give both the same number; a third process then runs the code of the wrong signature. Here a file's name is a
digest of its signature, so there is no index and no file changes its meaning.

numba also keeps code by the folder of the sources, so each installed release would compile the same sources again. Here
the code of a kernel is kept by its place in the packages.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import os
import pickle
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar, cast, overload

Function = TypeVar("Function", bound=Callable[..., Any])
BLAS = "scipy.linalg.cython_blas"


def _import_numba() -> Any:
    """Import numba without scipy, which takes a tenth of a start. A kernel with a product of matrices imports it."""
    modules = cast(dict[str, Any], sys.modules)
    hidden = BLAS not in modules and "numba" not in modules
    if hidden:
        modules[BLAS] = None
    try:
        loaded = importlib.import_module("numba")
        arrays: Any = importlib.import_module("numba.np.arraymath")
    finally:
        if hidden:
            del modules[BLAS]
    if hidden:
        arrays._HAVE_BLAS = find_spec("scipy") is not None
    return loaded


numba = _import_numba()
from numba.core import caching, event  # noqa: E402 - after the import without scipy
from numba.extending import register_jitable  # noqa: E402

log = logging.getLogger("onboard.kernel")
"""Logs a compilation; the commands show it (`onboard/commands/cli.py`)."""
ROOT = Path(__file__).parents[2]
PACKAGES = ("onboard", "hil", "engines", "calib")
MARK = b"onboard.values.kernel import"
IMPORT = re.compile(rb"^from ((?:onboard|hil|engines|calib)(?:\.\w+)*) import ([^\n(]*|\([^)]*\))", re.MULTILINE)
DIGEST_BYTES = 8
KEPT = 8
"""Number of cache folders kept, for developers with several versions."""


def cache_root(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder of compiled kernels; None without a home folder.

    NUMBA_CACHE_DIR, else `onboard/numba` in the user's cache folder (XDG_CACHE_HOME, else ~/.cache).
    """
    named = environment.get("NUMBA_CACHE_DIR")
    if named:
        return Path(named)
    home = environment.get("XDG_CACHE_HOME") or (f"{environment['HOME']}/.cache" if environment.get("HOME") else "")
    return Path(home) / "onboard" / "numba" if home else None


def sources_digest(root: Path = ROOT) -> str:
    """Return a digest of all dependencies of compiled kernels in the packages under `root`."""
    files = (file for package in PACKAGES for file in (root / package).rglob("*.py"))
    texts = {file: text for file in files if MARK in (text := file.read_bytes())}
    for text in list(texts.values()):
        for module, names in IMPORT.findall(text):
            folder = root.joinpath(*module.decode().split("."))
            inside = [folder / f"{name.decode()}.py" for name in re.findall(rb"\w+", names)]
            for file in (folder.with_suffix(".py"), *inside):
                if file not in texts and file.is_file():
                    texts[file] = file.read_bytes()
    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=DIGEST_BYTES)
    for file in sorted(texts):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + texts[file] + b"\0")
    return digest.hexdigest()


class SignatureFiles(caching.IndexDataCacheFile):
    """The cached code of one kernel: a file for each signature, replaced as a whole, and no index."""

    def save(self, key: Any, data: Any) -> None:
        """Write the code for a signature on a processor. key: as numba makes it"""
        self._save_data(self._file_of(key), (key, data))  # type: ignore[no-untyped-call]

    def load(self, key: Any) -> Any:
        """Return the code for this signature; None if there is none."""
        try:
            of, data = self._load_data(self._file_of(key))  # type: ignore[no-untyped-call]
        except (OSError, EOFError, pickle.UnpicklingError):  # the last two after a power cut
            return None
        return data if of == key else None

    def _file_of(self, key: Any) -> str:
        digest = hashlib.blake2b(repr((self._source_stamp, key)).encode(), digest_size=DIGEST_BYTES).hexdigest()
        return str(self._data_name_pattern.format(number=int(digest, 16)))


class SourceLocator(caching.UserProvidedCacheLocator):
    """The place of a kernel's code in the cache: that of its source in the packages, wherever they are installed."""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """Return the place; None for a source outside the packages, which `sources_digest` does not cover."""
        within = Path(py_file).is_relative_to(ROOT) and Path(py_file).relative_to(ROOT).parts[0] in PACKAGES
        return super().from_function(py_func, py_file) if within else None  # type: ignore[no-untyped-call]

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """Return the folder of the source, relative to the packages."""
        return ".".join(Path(py_file).parent.relative_to(ROOT).parts)

    def get_source_stamp(self) -> str:
        """Return nothing that could differ: the cache folder has the digest of all sources."""
        return ""


def _open_cache(root: Path | None) -> bool:
    """Set numba's cache folder to the folder of these sources; return False if it is not writable."""
    if root is None:
        return False
    folder = root / sources_digest()
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True)
            others = sorted(root.iterdir(), key=lambda one: one.stat().st_mtime, reverse=True)
            for old in others[KEPT:]:
                shutil.rmtree(old, ignore_errors=True)
    except FileExistsError:
        pass  # another process was first
    except OSError:
        return False
    settings: Any = numba.core.config
    settings.CACHE_DIR = str(folder)
    cast(Any, caching).IndexDataCacheFile = SignatureFiles
    impl: Any = caching.CacheImpl
    impl._locator_classes = [SourceLocator, *impl._locator_classes]
    return os.access(folder, os.W_OK)


_CACHED = _open_cache(cache_root())


class Compilations(event.Listener):
    """Counts the kernels that were compiled in this process, not loaded from the cache, and logs the first.

    importing: a module with kernels of a given signature is imported. That takes seconds, and every command may do it
    """

    def __init__(self) -> None:
        self.count = 0
        self.importing = self._logged = False

    def on_start(self, _: event.Event) -> None:
        """Count a compilation."""
        if not (self._logged or self.importing):
            self._logged = True
            log.info(
                "compiling kernels: the first run of this version on this machine takes a minute or two longer; "
                "`onboard compile` does this in advance"
            )
        self.count += 1

    def on_end(self, _: event.Event) -> None:
        """Do nothing: a compilation is counted at its start."""


compilations = Compilations()
cast(Any, event).register("numba:compile", compilations)


def compilable(function: Function) -> Function:
    """Let kernels call a function of numbers, on cores and in `numba.cuda`. Python runs it as it is, uncompiled.

    The arithmetic of a rule is such a function: the runtime calls it as Python, simulation at speed as machine code.
    """
    return register_jitable(function)


@overload
def kernel(function: Function, /) -> Function: ...


@overload
def kernel(*, signature: Any = None, **options: Any) -> Callable[[Function], Function]: ...


def kernel(function: Any = None, /, *, signature: Any = None, **options: Any) -> Any:
    """Compile a function by `numba.njit`, without the GIL, cached on disk if possible.

    signature: a numba signature, to compile at once; options: options of `njit`
    Kernels never use `fastmath`, so results equal the numpy definition bit for bit.
    """
    decorate = numba.njit(signature, **{"cache": _CACHED, "nogil": True, **options})

    def made(function: Any) -> Any:
        compilations.importing = signature is not None
        try:
            return decorate(function)
        finally:
            compilations.importing = False

    return made if function is None else made(function)
