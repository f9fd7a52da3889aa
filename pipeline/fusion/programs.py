"""Programs are equal when their syntax trees are, up to local names, comments, docstrings, layout and quotes."""

from __future__ import annotations

import ast
import hashlib
import re
import textwrap

from pipeline.fusion.code import last_fence

MAX_SOURCE = 20_000
_STATEMENT = re.compile(
    r"^[ \t]*(?:def|class|async|import|from|for|while|if|try|with|return|print|@|lambda)\b.*[:(=]"
    r"|^[ \t]*(?:import|from) \w|^[ \t]*\w+(?:\[[^\]\n]*\])? [-+*/]?= ",
    re.M,
)
_FUNCTION = re.compile(r"[ \t]*(?:\w+ = )?lambda\b[^:]*:")
_DYNAMIC = frozenset({"eval", "exec", "locals", "vars", "globals", "dir"})


def program_key(text: str) -> str | None:
    """The key of Python source, fenced or with statements over several lines, else ``None``."""
    fenced = last_fence(text)
    source = textwrap.dedent(text if fenced is None else fenced).strip("\n")
    if len(source) > MAX_SOURCE or (
        fenced is None and "\n" not in source.strip() and "def " not in source and not _FUNCTION.match(source)
    ):
        return None
    if fenced is None and not (_STATEMENT.search(source) or _FUNCTION.match(source)):
        return None
    try:
        tree = ast.parse(source)
        if not tree.body:
            return None
        shape = ast.dump(_Renamed(tree).visit(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        if fenced is None:
            return None
        shape = "\n".join(line.rstrip() for line in source.splitlines() if line.strip())
    return f"code:{hashlib.sha256(shape.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class _Locals(ast.NodeVisitor):
    """The names that one function binds, in order of appearance; nested functions bind their own."""

    def __init__(self, function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        self.names: dict[str, None] = {}
        self.outer: set[str] = set()
        arguments = function.args
        every = [
            *arguments.posonlyargs,
            *arguments.args,
            arguments.vararg,
            *arguments.kwonlyargs,
            arguments.kwarg,
        ]
        for argument in every:
            if argument is not None:
                self.names[argument.arg] = None
        for statement in function.body if isinstance(function.body, list) else [function.body]:
            self.visit(statement)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store | ast.Del):
            self.names[node.id] = None

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.names[node.name] = None

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.names[node.name] = None

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        # A class's name can be seen in its instances, so it stays.
        self.outer.add(node.name)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        return None

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.names[node.name] = None
        self.generic_visit(node)

    def visit_alias(self, node: ast.alias) -> None:
        if node.asname:
            self.names[node.asname] = None
        else:
            self.outer.add(node.name)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self._capture(node.name)
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        self._capture(node.name)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.generic_visit(node)
        self._capture(node.rest)

    def _capture(self, name: str | None) -> None:
        if name:
            self.names[name] = None

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._comprehended(node)

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self._comprehended(node)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._comprehended(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._comprehended(node)

    def _comprehended(self, node: _Comprehension) -> None:
        """Of a comprehension only what ``:=`` binds is bound outside it."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                self.names[inner.target.id] = None

    def visit_Global(self, node: ast.Global) -> None:
        self.outer.update(node.names)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self.outer.update(node.names)


class _Callees:
    """Which calls may reach a function of the program itself, where a keyword is the name of a parameter."""

    def __init__(self, nodes: list[ast.AST]) -> None:
        self.functions = {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
        self.bound = self.functions | {n.name for n in nodes if isinstance(n, ast.ClassDef)}
        self.bound |= {n.arg for n in nodes if isinstance(n, ast.arg)}
        self.bound |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}

    def own(self, call: ast.Call) -> bool:
        if any(self._names(argument, self.functions) for argument in call.args):
            return True
        return not isinstance(call.func, ast.Name | ast.Attribute) or self._names(call.func, self.bound)

    def _names(self, node: ast.expr, own: set[str]) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr in self.functions
        return isinstance(node, ast.Name) and node.id in own


class _Renamed(ast.NodeTransformer):
    """Local names become numbers in order of appearance, docstrings go."""

    def __init__(self, tree: ast.Module) -> None:
        nodes = list(ast.walk(tree))
        callees = _Callees(nodes)
        # A parameter that is also given as a keyword is seen from outside.
        self.fixed = {
            keyword.arg
            for node in nodes
            if isinstance(node, ast.Call) and callees.own(node)
            for keyword in node.keywords
            if keyword.arg
        }
        self.dynamic = any(isinstance(node, ast.Name) and node.id in _DYNAMIC for node in nodes)
        self.scopes: list[dict[str, str]] = []
        self.count = 0

    def renamed(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:] or [ast.Pass()]
        return super().generic_visit(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> ast.AST:
        if not isinstance(node, ast.Lambda):
            node.name = self.renamed(node.name)
            node.decorator_list = [self.visit(decorator) for decorator in node.decorator_list]
        node.args.defaults = [self.visit(default) for default in node.args.defaults]
        node.args.kw_defaults = [default and self.visit(default) for default in node.args.kw_defaults]
        scope: dict[str, str] = {}
        if not self.dynamic:
            bound = _Locals(node)
            for name in bound.names:
                if name not in bound.outer and name not in self.fixed:
                    scope[name] = f"${self.count}"
                    self.count += 1
        self.scopes.append(scope)
        decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
        defaults, node.args.defaults = node.args.defaults, []
        named_defaults, node.args.kw_defaults = node.args.kw_defaults, []
        if not isinstance(node, ast.Lambda):
            node.decorator_list = []
        self.generic_visit(node)
        node.args.defaults, node.args.kw_defaults = defaults, named_defaults
        if not isinstance(node, ast.Lambda):
            node.decorator_list = decorators
        self.scopes.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return self._function(node)

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        return self._comprehension(node)

    def visit_SetComp(self, node: ast.SetComp) -> ast.AST:
        return self._comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        return self._comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        return self._comprehension(node)

    def _comprehension(self, node: _Comprehension) -> ast.AST:
        # The first source is read outside the scope of the comprehension.
        first = node.generators[0]
        source, first.iter = self.visit(first.iter), ast.Constant(None)
        scope: dict[str, str] = {}
        for generator in node.generators:
            for target in ast.walk(generator.target):
                if isinstance(target, ast.Name) and target.id not in scope and not self.dynamic:
                    scope[target.id] = f"${self.count}"
                    self.count += 1
        self.scopes.append(scope)
        self.generic_visit(node)
        self.scopes.pop()
        first.iter = source
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self.generic_visit(node)

    def visit_alias(self, node: ast.alias) -> ast.AST:
        node.asname = node.asname and self.renamed(node.asname)
        return node

    def visit_MatchAs(self, node: ast.MatchAs) -> ast.AST:
        node.name = node.name and self.renamed(node.name)
        return self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> ast.AST:
        node.name = node.name and self.renamed(node.name)
        return node

    def visit_MatchMapping(self, node: ast.MatchMapping) -> ast.AST:
        node.rest = node.rest and self.renamed(node.rest)
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        node.kind = None
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self.renamed(node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self.renamed(node.arg)
        return self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        node.name = self.renamed(node.name) if node.name else node.name
        return self.generic_visit(node)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        node.names = [self.renamed(name) for name in node.names]
        return node
