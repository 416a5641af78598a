"""The source of a region: the statements of the user's between two awaits, with the variables of their frame."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING, Any, Callable, Iterable, Optional, Sequence

from ...region.awaiting import HOME
from ...region.trees import children, fields, parse, places, walk
from .program import copied, has_await

if TYPE_CHECKING:
    from .flow import Flow

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
DEFS = (ast.FunctionDef, ast.AsyncFunctionDef)


def parsed(text: str, node: Optional[ast.AST] = None) -> list[ast.stmt]:
    """Statements of our own, at the place of one of the user's."""
    found: list[ast.stmt] = parse(text).body
    for each in found:
        for part in walk(each):
            if isinstance(part, (ast.stmt, ast.expr, ast.ExceptHandler)):
                part.lineno = getattr(node, "lineno", 0)
    return found


class Leaving(ast.Return):
    """A return of ours."""


def leaving(call: str, *values: ast.expr) -> Leaving:
    """`return _lope.CALL(…)`."""
    function = ast.Attribute(ast.Name("_lope", ast.Load()), call, ast.Load())
    return Leaving(ast.Call(function, list(values), []))


def store(name: str, value: ast.expr, node: ast.AST) -> ast.stmt:
    made = ast.Assign([ast.Name(name, ast.Store())], value)
    made.lineno = getattr(node, "lineno", 0)
    return made


def load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def bound_names(node: ast.AST, inside: bool = False) -> set[str]:
    """The names that a piece of code binds in its own scope; `inside`: also in the scopes in it."""
    found: set[str] = set()
    waiting = children(node)
    while waiting:
        child = waiting.pop()
        found.update(_bound(child))
        if inside or not isinstance(child, (*SCOPES, *_COMPREHENSIONS)):
            waiting += children(child)
        elif isinstance(child, _COMPREHENSIONS):
            found |= {each.target.id for each in walk(child) if isinstance(each, ast.NamedExpr)}
    return found


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _bound(node: ast.AST) -> Iterable[str]:
    """The names that a node itself binds."""
    bind = _BINDING.get(node.__class__)
    return () if bind is None else bind(node)


def _named(node: Any) -> Iterable[str]:
    return (node.name,) if node.name else ()


_BINDING: dict[type[ast.AST], Callable[[Any], Iterable[str]]] = {
    ast.Name: lambda node: () if isinstance(node.ctx, ast.Load) else (node.id,),
    **dict.fromkeys((*DEFS, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar), _named),
    ast.arg: lambda node: (node.arg,),
    **dict.fromkeys(
        (ast.Import, ast.ImportFrom), lambda node: [each.asname or each.name.partition(".")[0] for each in node.names]
    ),
    ast.MatchMapping: lambda node: (node.rest,) if node.rest else (),
}


def mentioned(nodes: Iterable[ast.AST]) -> set[str]:
    found: set[str] = set()
    for each in walk(*nodes):
        if isinstance(each, ast.Name):
            found.add(each.id)
        else:
            found.update(_bound(each))
    return found


def free_names(scope: ast.AST) -> set[str]:
    """The names that a function or class inside another takes from outside; perhaps more."""
    if isinstance(scope, ast.ClassDef):
        return mentioned(scope.body)
    body = scope.body if isinstance(scope, DEFS) else [getattr(scope, "body")]
    own = bound_names(ast.Module(list(body), [])) | bound_names(getattr(scope, "args"))
    found: set[str] = set()
    for each in walk(*body):
        if isinstance(each, (ast.Nonlocal, ast.Global)):
            own -= set(each.names)
            found |= set(each.names)
    return found | (mentioned(body) - own)


def private(name: str, owner: Optional[type]) -> str:
    """The name that an attribute has which a method of a class names."""
    own = owner is not None and name.startswith("__") and not name.endswith("__")
    return f"_{owner.__name__.lstrip('_')}{name}" if owner is not None and own else name


class Rewriting:
    """What the user's statements become in a region: they leave it by telling the law how."""

    def __init__(self, flow: "Flow") -> None:
        self.flow = flow
        self.loops = 0
        self.handlers = 0
        self.inner = 0
        self.classes = 0
        self.leaves: set[str] = set()
        # Does it look at variables that it does not name?
        self.sees_all = False

    def visit(self, node: Any) -> Any:
        visit = _VISITS.get(node.__class__, Rewriting.generic_visit)
        return visit(self, node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        inside: dict[str, Any] = node.__dict__
        for name in fields(node.__class__):
            value = inside.get(name)
            if isinstance(value, ast.AST):
                inside[name] = self.visit(value)
            elif isinstance(value, list):
                value[:] = [self.visit(each) if isinstance(each, ast.AST) else each for each in value]
        return node

    def visit_inner(self, node: ast.AST) -> ast.AST:
        self.inner += 1
        self.generic_visit(node)
        self.inner -= 1
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        # It is called, never run: the law follows what it does, in the frame that it is defined in.
        home = ast.Call(ast.Attribute(load("_lope"), "home", ast.Load()), [ast.Constant(self.flow.nested_key(node))], [])
        node.args.kwonlyargs.append(ast.arg(HOME))
        node.args.kw_defaults.append(home)
        node.body = [ast.copy_location(ast.Pass(), node)]
        node.decorator_list = []
        return node

    def visit_For(self, node: ast.For) -> Any:
        return self.loop(node, ("target", "iter"))

    def visit_While(self, node: ast.While) -> Any:
        return self.loop(node, ("test",))

    def loop(self, node: Any, parts: Sequence[str]) -> Any:
        for part in parts:
            setattr(node, part, self.visit(getattr(node, part)))
        self.loops += 1
        node.body = self.block(node.body)
        self.loops -= 1
        node.orelse = self.block(node.orelse)
        return node

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        return [self.visit(each) for each in body]

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        self.handlers += 1
        self.generic_visit(node)
        self.handlers -= 1
        return node

    def visit_Try(self, node: ast.Try) -> ast.AST:
        """A variable that functions share is not the region's own: without a value it is said to be free, and is not."""
        self.generic_visit(node)
        shared = self.flow.routine.cells - {each.arg for each in walk(self.flow.unit.node.args) if isinstance(each, ast.arg)}
        if self.inner or not shared or not mentioned(node.body) & shared or not any(map(self.flow.catches_unbound, node.handlers)):
            return node
        told = self.flow.hidden()
        text = f"{told} = None\ntry:\n    pass\nexcept NameError:\n    {told} = _lope.unbound()\nif {told} is not None:\n    raise {told}"
        made = parsed(text, node)
        body = made[1]
        assert isinstance(body, ast.Try)
        body.body, node.body = node.body, made
        return node

    def visit_Leaving(self, node: Leaving) -> ast.AST:
        self.generic_visit(node)
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "leave":
            self.leaves |= {str(each.value) for each in call.args if isinstance(each, ast.Constant)}
        return ast.copy_location(ast.Return(node.value), node)

    def visit_Return(self, node: ast.Return) -> ast.AST:
        self.generic_visit(node)
        if self.inner:
            return node
        self.leaves.add("return")
        return self.visit_Leaving(ast.copy_location(leaving("returns", node.value or ast.Constant(None)), node))

    def visit_Break(self, node: ast.Break) -> ast.AST:
        return self.left(node, "break")

    def visit_Continue(self, node: ast.Continue) -> ast.AST:
        return self.left(node, "continue")

    def left(self, node: ast.stmt, word: str) -> ast.AST:
        if self.inner or self.loops:
            return node
        self.leaves.add(word)
        return self.visit_Leaving(ast.copy_location(leaving("leave", ast.Constant(word)), node))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """What a local name is said to be is never computed, and a cell takes no annotation."""
        self.generic_visit(node)
        if self.inner or not isinstance(node.target, ast.Name):
            return node
        plain: ast.stmt = ast.Assign([node.target], node.value) if node.value is not None else ast.Pass()
        return ast.copy_location(plain, node)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        return node if self.inner else ast.copy_location(ast.Pass(), node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        self.generic_visit(node)
        if node.exc is None and not self.handlers and not self.inner and self.flow.handling:
            node.exc = load(self.flow.handling[-1])
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args and not self.inner:
            return self.flow.super_call(node)
        if not self.inner and self.looks_at_all(node):
            return node
        return self.flow.known_call(node)

    def looks_at_all(self, node: ast.Call) -> bool:
        """Calls that look at all variables of the function: they get those that are the user's."""
        found = self.flow.builtin(node.func)
        if node.keywords or found not in (locals, vars, dir, eval, exec) or len(node.args) != (found in (eval, exec)):
            return False
        self.sees_all = True
        seen = parse("_lope.visible(locals())", mode="eval").body
        if node.args:
            node.args += [ast.Call(load("globals"), [], []), seen]
        else:
            node.func, node.args = load("sorted" if found is dir else "dict"), [seen]
        return True

    def visit_Name(self, node: ast.Name) -> ast.AST:
        owner = self.flow.unit.owner
        return self.flow.own_class(owner, node) if node.id == "__class__" and owner is not None else node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Private names in it are its own."""
        self.classes += 1
        self.visit_inner(node)
        self.classes -= 1
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if self.classes:
            return node
        node.attr = private(node.attr, self.flow.unit.owner)
        return node


_VISITS: dict[type[ast.AST], Callable[[Rewriting, Any], Any]] = {
    ast.FunctionDef: Rewriting.visit_inner, ast.Lambda: Rewriting.visit_inner, Leaving: Rewriting.visit_Leaving,
    **{getattr(ast, name[6:]): visit for name, visit in vars(Rewriting).items() if hasattr(ast, name[6:])},
}  # fmt: skip


def region_function(flow: "Flow", body: Sequence[ast.stmt]) -> tuple[str, list[int], set[str], dict[str, int]]:
    """The function of a region with the lines of its statements, how it may be left besides by its end, and which of its
    variables are cells: each with how far out its frame is."""
    rewriting = Rewriting(flow)
    written = [rewriting.visit(copied(each)) for each in body]
    if any(map(has_await, written)):
        left = next(each for each in walk(*written) if isinstance(each, ast.Await))
        flow.refuse(left, "an await in this place", "await it before, into a variable")
    names = mentioned(written)
    if rewriting.sees_all:
        names |= {name for name in flow.routine.locals if not name.startswith("_lope_")}
    mine = {name for name in names if name in flow.routine.locals}
    cells = {name: 0 for name in sorted(mine & flow.routine.cells)}
    for name in sorted(names - mine):
        depth = next((depth for depth, each in enumerate(flow.around(), 1) if name in each.locals), None)
        if depth is not None:
            cells[name] = depth
    plain = sorted(mine - set(cells))
    guarded = ast.Try(written or [ast.Pass()], [], [], [_ours(f"_lope.save(locals(), {plain!r})")])
    shape = "def region(_lope):\n    pass"
    if cells:
        inner = f"    def region(_lope):\n        nonlocal {', '.join(cells)}"
        shape = f"def around({', '.join(cells)}):\n{inner}"
    made = copied(_ours(shape))
    assert isinstance(made, ast.FunctionDef)
    region = made.body[0] if cells else made
    assert isinstance(region, ast.FunctionDef)
    region.body = region.body if cells else []
    # What fetches a variable is two statements, and nobody's.
    lines = [*places([made]), *([0, 0] * len(plain)), *places([guarded])]
    region.body = [*region.body, _ours(_FETCHES), guarded]
    indent = "        " if cells else "    "
    fetched = "".join(f"\n{indent}if _lope.has({name!r}):\n{indent}    {name} = _lope.get({name!r})" for name in plain)
    # It stands before whatever the user wrote.
    text = ast.unparse(made).replace(f"\n{indent}{_FETCHES}", fetched, 1)
    return text, lines, rewriting.leaves, cells


# Stands in a region for what fetches its variables.
_FETCHES = "_lope_fetches"


@functools.lru_cache(maxsize=4096)
def _ours(text: str) -> ast.stmt:
    """A statement of our own that many regions have; nobody changes it."""
    return parsed(text)[0]
