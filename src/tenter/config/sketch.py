"""What a Python hook declares about itself, read from its text and not from the hook (promise 15).

`@hook(...)` and classes that derive from `Hook` say in literals where they hang and with which settings. From these a
stand-in is made, a function or class with the same signatures and settings and nothing inside, which the kernel reads
as it reads the real one. Where the text does not say it in literals there is no stand-in: it is known after the import.
"""

import ast
from collections.abc import Iterable, Sequence
from typing import Final, cast

from tenter.config.targets import Definition, Module, Target, bound_name
from tenter.kernel import Hook, hook

_PLACES: Final = ("tenter", "tenter.kernel", "tenter.kernel.declaration")
_DECORATORS: Final = frozenset(f"{place}.hook" for place in _PLACES)
_CLASSES: Final = frozenset(f"{place}.Hook" for place in _PLACES)

SETTINGS: Final = frozenset({"name", "band", "priority", "on_error", "timeout", "match", "observe", "mode"})

_OPAQUE: Final = frozenset(
    {"__new__", "__getattr__", "__getattribute__", "__init_subclass__", "__class_getitem__", "__slots__"}
)
"""Methods after which the text of a class says little about its instances."""


class _Unknown(Exception):
    """The text does not say. Caught in this file."""


def stand_in(target: Target) -> object | None:
    """The stand-in of a function, a class or an instance; None where its text does not say enough."""
    module = target.module
    if module is None or "." in target.attribute or module.dynamic or _changed(module, target.attribute):
        return None
    try:
        return _Sketch(module).make(target.attribute)
    except _Unknown:
        return None


class _Sketch:
    def __init__(self, module: Module) -> None:
        self._module = module

    def make(self, name: str) -> object:
        node = self._module.only(name)
        statements: list[ast.stmt] = []
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                statements.append(_stub(node, [self._decorator(one) for one in node.decorator_list]))
            case ast.ClassDef():
                statements.append(self._class(node))
            case ast.Assign(targets=[ast.Name()], value=ast.Call(func=ast.Name(id=made)) as call):
                cls = self._module.only(made)
                if not isinstance(cls, ast.ClassDef) or _changed(self._module, made):
                    raise _Unknown
                statements += [self._class(cls), _instance(name, made, call)]
            case _:
                raise _Unknown
        return _run(statements, str(self._module.file), name)

    def _decorator(self, node: ast.expr) -> ast.expr:
        """The `@hook(...)` that this decorator is."""
        if not isinstance(node, ast.Call) or self._dotted(node.func) not in _DECORATORS:
            raise _Unknown
        if not all(map(_is_literal, [*node.args, *(one.value for one in node.keywords)])):
            raise _Unknown
        if not all(one.arg in SETTINGS for one in node.keywords):
            raise _Unknown
        call = ast.Call(ast.Name("hook", ast.Load()), node.args, node.keywords)
        return ast.copy_location(call, node)

    def _class(self, node: ast.ClassDef) -> ast.ClassDef:
        if node.keywords or node.decorator_list or [self._dotted(base) for base in node.bases] not in _known_bases():
            raise _Unknown
        body = [one for statement in node.body for one in _member(statement)]
        bases: list[ast.expr] = [ast.Name("Hook", ast.Load())] if node.bases else []
        made = ast.ClassDef(name=node.name, bases=bases, keywords=[], body=body or [ast.Pass()], decorator_list=[])
        return ast.copy_location(made, node)

    def _dotted(self, node: ast.expr) -> str:
        """The full name that an expression means by the imports of the module; empty where it means something else."""
        if isinstance(node, ast.Attribute):
            owner = self._dotted(node.value)
            return f"{owner}.{node.attr}" if owner else ""
        imported = self._module.only(node.id) if isinstance(node, ast.Name) else None
        for alias in imported.names if isinstance(imported, ast.Import | ast.ImportFrom) else ():
            if bound_name(alias) != cast(ast.Name, node).id:
                continue
            if isinstance(imported, ast.ImportFrom):
                return "" if imported.level else f"{imported.module}.{alias.name}"
            return alias.name if alias.asname else bound_name(alias)
        return ""


def _known_bases() -> list[list[str]]:
    return [[], *([name] for name in _CLASSES)]


def _member(node: ast.stmt) -> Iterable[ast.stmt]:
    """What a statement of a class is in the stand-in."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return _method(node)
        case ast.ClassDef(name=name) if not (name in SETTINGS or _is_attached(name)):
            return ()
        case ast.Assign(targets=targets, value=value):
            return _attribute(node, targets, value)
        case ast.AnnAssign(value=None) | ast.Expr(value=ast.Constant()) | ast.Pass():
            return ()
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            return _attribute(node, [target], value)
        case _:
            raise _Unknown


def _method(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterable[ast.stmt]:
    if node.name in SETTINGS - {"on_error"} or node.name in _OPAQUE:
        raise _Unknown
    if not (_is_attached(node.name) or node.name == "__init__"):
        return ()
    if node.decorator_list or (node.name == "__init__" and _sets(node)):
        raise _Unknown
    return (_stub(node, []),)


def _attribute(node: ast.stmt, targets: Sequence[ast.expr], value: ast.expr) -> Iterable[ast.stmt]:
    names = [one.id if isinstance(one, ast.Name) else "" for one in targets]
    if not any(name in SETTINGS or name in _OPAQUE or _is_attached(name) or not name for name in names):
        return ()
    if not all(name in SETTINGS for name in names) or not _is_literal(value):
        raise _Unknown
    made = ast.Assign([ast.Name(name, ast.Store()) for name in names], value)
    return (ast.copy_location(made, node),)


def _is_attached(name: str) -> bool:
    return name.startswith("on_") or name == "abandon"


def _sets(init: ast.AST) -> bool:
    """Whether a method may set what counts for where and how the hook hangs."""
    for node in ast.walk(init):
        match node:
            case ast.Attribute(attr=attr, ctx=ast.Store()) if attr in SETTINGS or _is_attached(attr):
                return True
            case ast.Attribute(attr="__dict__") | ast.Name(id="super"):
                return True
            case _:
                pass
    return False


def _changed(module: Module, name: str) -> bool:
    """Whether the module changes something of `name` after its definition."""
    inside = (node for statement in module.body for node in ast.walk(statement))
    return any(
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store | ast.Del)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
        for node in inside
    )


def _stub(node: ast.FunctionDef | ast.AsyncFunctionDef, decorators: list[ast.expr]) -> ast.stmt:
    """The function with its parameters and its kind, and nothing inside."""
    args = ast.arguments(
        posonlyargs=_bare(node.args.posonlyargs),
        args=_bare(node.args.args),
        vararg=_bare([node.args.vararg])[0] if node.args.vararg else None,
        kwonlyargs=_bare(node.args.kwonlyargs),
        kw_defaults=[None if default is None else ast.Constant(None) for default in node.args.kw_defaults],
        kwarg=_bare([node.args.kwarg])[0] if node.args.kwarg else None,
        defaults=[ast.Constant(None) for _ in node.args.defaults],
    )
    body: list[ast.stmt] = [ast.Expr(ast.Yield(None))] if _yields(node) else [ast.Pass()]
    kind = type(node)
    made = kind(name=node.name, args=args, body=body, decorator_list=decorators)
    return ast.copy_location(made, node)


def _bare(args: Sequence[ast.arg]) -> list[ast.arg]:
    return [ast.copy_location(ast.arg(one.arg), one) for one in args]


def _yields(node: ast.AST) -> bool:
    """Whether a function is a generator: yields, in itself and not in a function inside."""
    return any(
        isinstance(one, ast.Yield | ast.YieldFrom) or (not isinstance(one, Definition | ast.Lambda) and _yields(one))
        for one in ast.iter_child_nodes(node)
    )


def _instance(name: str, cls: str, call: ast.Call) -> ast.stmt:
    if any(isinstance(one, ast.Starred) for one in call.args) or any(one.arg is None for one in call.keywords):
        raise _Unknown
    made = ast.Call(
        ast.Name(cls, ast.Load()),
        [ast.Constant(None) for _ in call.args],
        [ast.keyword(one.arg, ast.Constant(None)) for one in call.keywords],
    )
    return ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], made), call)


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return False
    return True


def _run(statements: list[ast.stmt], file: str, name: str) -> object:
    """Defines `name`. The statements hold literals and empty functions, and reach nothing but `hook` and `Hook`."""
    tree = ast.fix_missing_locations(ast.Module(statements, []))
    space: dict[str, object] = {"hook": hook, "Hook": Hook, "__name__": "tenter_sketch", "__builtins__": _BUILTINS}
    try:
        exec(compile(tree, file, "exec", dont_inherit=True), space)
    except Exception as error:  # the real one will fail as well, and say so better
        raise _Unknown from error
    return space[name]


_BUILTINS: Final = {"__build_class__": __build_class__}
