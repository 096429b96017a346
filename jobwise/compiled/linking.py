"""Numba's compiler for kernels that call each other a lot: parts and wholes.

Plain numba optimises every function with all its callees linked in, makes machine code of it and wrappers for Python and
C, and does so again inside each caller. Here a function that kernels call is a *part*: LLVM IR and no more, with one
signature for integers of all widths. A function that Python calls is a *whole*: it links all its parts as internal
functions and optimises them together, once. First use takes a third of the time; the code is as fast or faster.

This reaches into numba's internals, which only tests of a numba version can vouch for: `compiled` takes plain `njit` with
every version not named here.
"""

from __future__ import annotations

import functools

from llvmlite import binding as llvm
from numba import njit, types
from numba.core import codegen, compiler
from numba.core.compiler_machinery import register_pass
from numba.core.targetconfig import TargetConfig
from numba.core.typed_passes import NativeLowering

TESTED = ("0.68",)  # minor versions of numba whose internals are as expected


def _same(flags, other) -> bool:
    """Equal flags of a compilation; numba lists all of them, set or not, for each of the tens of thousands of comparisons."""
    if not isinstance(other, TargetConfig):
        return NotImplemented
    return flags is other or flags._values == other._values or flags.values() == other.values()


TargetConfig.__eq__ = _same  # type: ignore[method-assign]
TargetConfig.__hash__ = lambda flags: 1  # type: ignore[method-assign]  # part of keys that differ by their types


class _Part(codegen.JITCodeLibrary):
    """The IR of a function, for its callers to link: neither optimised nor turned into machine code."""

    def finalize(self):
        """Nothing is to be done."""
        self._finalized = True

    def alone(self):
        """Return the module that holds this function alone."""
        return super()._get_module_for_linking()

    def _get_module_for_linking(self):
        """For a caller that is no whole, as a user's plain njit function: with all parts."""
        module = self.alone().clone()
        for library in _below(self):
            linked = library.alone() if isinstance(library, _Part) else library._get_module_for_linking()
            module.link_in(linked, preserve=True)
        return module


class _Whole(codegen.JITCodeLibrary):
    """A function that Python calls, with all its parts."""

    def finalize(self):
        """Link all parts, also parts of parts, optimise and compile."""
        below = _below(self)
        self._linking_libraries = [library for library in below if not isinstance(library, _Part)]
        parts = [library for library in below if isinstance(library, _Part)]
        for part in parts:
            self._final_module.link_in(part.alone(), preserve=True)
        self._parts = {f.name for part in parts for f in part._final_module.functions if not f.is_declaration}
        super().finalize()

    def _get_module_for_linking(self):
        """Return its names alone, which numba looks up when it loads the machine code: the whole is never linked, and its
        language would make the cache on disk twice as large."""
        self._ensure_finalized()
        if self._shared_module is None:
            m = self._final_module
            names = [f'define void @"{f.name}"() {{ unreachable }}' for f in m.functions if not f.is_declaration]
            names += [f'@"{v.name}" = global i8 0' for v in m.global_variables if not v.is_declaration]
            self._shared_module = llvm.parse_assembly("\n".join(names))
        return self._shared_module

    def _optimize_final_module(self):
        for f in self._final_module.functions:
            if f.name in self._parts and not f.is_declaration:
                f.linkage = "internal"  # nobody else calls it: LLVM drops unused arguments, and what it inlined
        super()._optimize_final_module()


def _below(library) -> list:
    """All libraries that a library links, parts of parts too; callers first, as LLVM links what has been asked for."""
    order, visited = [], {library}

    def visit(other):
        if other not in visited:
            visited.add(other)
            for below in other._linking_libraries if isinstance(other, _Part) else ():
                visit(below)
            order.append(other)

    for other in library._linking_libraries:
        visit(other)
    return order[::-1]


def _pipeline(kind):
    """Numba's pipeline of nopython mode, its last step made for parts or for wholes."""

    @register_pass(mutates_CFG=True, analysis_only=False)
    class Lowering(NativeLowering):
        _name = f"lowering_{kind.__name__}"

        def run_pass(self, state):
            """Lower a function into a library of this kind. A part gets no address in memory: callers find its IR by a key."""
            library = state.library = kind(state.targetctx.codegen(), state.func_id.func_qualname)
            library.enable_object_caching()
            state.flags.no_compile = kind is _Part
            super().run_pass(state)
            if kind is _Part:
                library.finalize()
                entry = {}.update  # the key by which callers find it: a builtin of its own, never called
                state.targetctx.insert_user_function(entry, state["cr"].fndesc, [library])
                state["cr"] = state["cr"]._replace(cfunc=entry)
            return True

    class Compiler(compiler.CompilerBase):
        def define_pipelines(self):
            passes = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
            passes.passes = [(Lowering if p is NativeLowering else p, text) for p, text in passes.passes]
            passes._finalized = False
            passes.finalize()
            return [passes]

    return Compiler


_PART, _WHOLE = _pipeline(_Part), _pipeline(_Whole)


def _wide(t):
    """The type of an argument as a part takes it: constants and narrow integers as int64."""
    t = types.unliteral(t)
    return types.int64 if isinstance(t, types.Integer) and t != types.uint64 else t


class Kernel:
    """A compiled function: Python calls `whole`, other kernels call `part`; each is compiled when first called."""

    def __init__(self, function, keep, forceinline: bool = False, **options):
        functools.update_wrapper(self, function)
        self.py_func, self._keep, self._forceinline = function, keep, forceinline
        self._options = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, **options}

    @functools.cached_property
    def whole(self):
        """The dispatcher for Python, with its cache on disk."""
        return self._keep(njit(pipeline_class=_WHOLE, **self._options)(self.py_func))

    @functools.cached_property
    def part(self):
        """The dispatcher for other kernels."""
        options = {"no_cpython_wrapper": True, "forceinline": self._forceinline, **self._options}
        part = njit(pipeline_class=_PART, **options)(self.py_func)
        template = part.get_call_template
        part.get_call_template = lambda args, kws: template(tuple(map(_wide, args)), {k: _wide(v) for k, v in kws.items()})
        return part

    @functools.cached_property
    def _numba_type_(self):
        """Return the numba type of this kernel for kernels that name it. (It holds a weak reference: `part` is kept here.)"""
        return types.Dispatcher(self.part)

    def __reduce__(self):
        if "<locals>" in self.__qualname__:
            return Kernel, (self.py_func, self._keep, self._forceinline)
        return self.__qualname__

    def __call__(self, *arguments):
        """Call the whole, compiled for these types."""
        return self.whole(*arguments)
