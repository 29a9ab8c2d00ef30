"""make mutants: change the library in one place, run its tests, see whether one notices; then the next place.

A mutant is one small change to a module of ``ops`` or ``costs``: mutmut's operators (a number one higher, ``<`` for
``<=``, ``+`` for ``-``, ``and`` for ``or``, an arm of a conditional expression, ...), and below some that tensors and
checks call for (a statement dropped, a condition forced, ``tril`` for ``triu``, a method call or a keyword left out).
Left alone: docstrings, annotations, imports, provenance, ``strict`` of ``zip``, and the wording of complaints, but not
the names in them.

mutmut's own runner changes neither static methods nor what stands outside of functions, so the running is done here,
and no file is touched. Pytest collects a module's tests once; each mutant is a fork of that process in which the
changed function gets its new code, and the tests that reach the changed lines run, the quickest first, up to the first
failure. A change outside of functions needs a pytest of its own, forked before the library was imported, with the
module compiled from the changed source. Tests are those of the module's own test file; what has none (``SHARED``) is
judged by all tests of its folder.

A mutant that no test notices survives; ``tests/mutants.yaml`` lists those that may, each with its reason. The run fails
on a survivor that is not listed, on a listed one that no longer survives, and on a module with fewer than 90 % killed.
Outcomes are kept in ``_build/mutants``: a run that was stopped goes on where it was, and a change of the module or of
its tests asks again (the test that killed a mutant before is tried first). Forks need Linux or macOS.
"""

import argparse
import contextlib
import gc
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import itertools
import json
import os
import random
import select
import signal
import sys
import time
import traceback
import types
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import libcst as cst
import yaml
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation import mutators

try:
    import resource
except ImportError:
    sys.exit("make mutants needs forks: Linux or macOS")

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "lib" / "attnledger"
KEPT = ROOT / "_build" / "mutants"
LISTED = ROOT / "tests" / "mutants.yaml"
SHARED = ("costs/_checks",)
LEAST = 0.9  # of a module's mutants are killed

# --- mutants ---------------------------------------------------------------------------------------------------------

WORDING = {"complain": 1, "shape": 3, "matrix": 2, "_check_per_head": 4}  # from this argument on, a check's are words
WORDS = {"got", "want", "wanted", "most", "words", "provenance", "_GUIDE", "_A100", "_HOPPER"}
WORDS |= {"FeatureMap", "State", "Args", "Result"}  # types
QUIET = {"provenance", "strict"}  # keywords: where a number was read, and a guard of zip that nothing reaches
SPEAKING = {"_span"}  # functions that only word a complaint
MODULES = {"torch", "math", "nn", "cst", "_check", "F", "super", "ctx"}
SWAPPED = {"tril": "triu", "any": "all", "min": "max", "amin": "amax", "minimum": "maximum", "sum": "mean"}
SWAPPED |= {"ceil": "floor", "sin": "cos", "zeros": "ones", "new_zeros": "new_ones", "exp": "expm1", "log": "log1p"}
SWAPPED |= {new: old for old, new in SWAPPED.items()}


def _called(node: cst.Call) -> str:
    """The last part of the name of what is called."""
    name = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
    return name.value if isinstance(name, cst.Name) else ""


def _one_string(node: cst.BaseString) -> list[cst.CSTNode]:
    return list(mutators.operator_string(node))[:1]


def _dropped_statement(node: cst.Expr) -> Iterator[cst.CSTNode]:
    if isinstance(node.value, cst.Call | cst.Tuple):
        yield cst.Pass()


def _forced_condition(node: cst.If | cst.While | cst.CompIf) -> Iterator[cst.CSTNode]:
    test = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    for operator, literal in ((cst.And(), "False"), (cst.Or(), "True")):
        yield node.with_changes(test=cst.BooleanOperation(test, operator, cst.Name(literal)))


def _dropped_keyword(node: cst.Call) -> Iterator[cst.CSTNode]:
    for i, argument in enumerate(node.args):
        if argument.keyword or argument.star == "**":
            yield node.with_changes(args=[*node.args[:i], *node.args[i + 1 :]])


def _swapped_name(node: cst.Call) -> Iterator[cst.CSTNode]:
    new = SWAPPED.get(_called(node))
    if new and isinstance(node.func, cst.Attribute):
        yield node.with_changes(func=node.func.with_changes(attr=cst.Name(new)))


def _dropped_method(node: cst.Call) -> Iterator[cst.CSTNode]:
    if isinstance(node.func, cst.Attribute):
        receiver = node.func.value
        if not (isinstance(receiver, cst.Name) and receiver.value in MODULES):
            yield receiver


def _dropped_transpose(node: cst.Attribute) -> Iterator[cst.CSTNode]:
    if node.attr.value == "mT":
        yield node.value


OURS = [
    (cst.BaseString, _one_string),
    (cst.Expr, _dropped_statement),
    (cst.If | cst.While | cst.CompIf, _forced_condition),
    (cst.Call, _dropped_keyword),
    (cst.Call, _swapped_name),
    (cst.Call, _dropped_method),
    (cst.Attribute, _dropped_transpose),
]
THEIRS = (
    mutators.operator_number,
    mutators.operator_name,
    mutators.operator_remove_unary_ops,
    mutators.operator_keywords,
    mutators.operator_swap_op,
    mutators.operator_augmented_assignment,
    mutators.operator_if_exp,
    mutators.operator_lambda,
)
OPERATORS = [(kind, operator) for kind, operator in mutators.mutation_operators if operator in THEIRS] + OURS


@dataclass(frozen=True)
class Mutant:
    """A changed source. ``was`` and ``now`` are the lines that differ; ``id`` does not depend on the lines around."""

    id: str
    where: str
    line: int
    lines: frozenset[int]  # those whose tests are asked
    was: str
    now: str
    source: str
    inside: bool  # of a function


class _Places(cst.CSTVisitor):
    """Collects what may be changed, with the function it stands in and the lines whose tests reach it."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, module: cst.Module, data: bool):
        self.statements = {statement: i for i, statement in enumerate(module.body)}
        self.data = data  # module level holds constants of data: only their numbers are changed
        self.found: list[tuple[cst.CSTNode, cst.CSTNode, str, frozenset[int], int, bool]] = []
        self.top = -1  # which statement of the module
        self.scope: list[tuple[str, frozenset[int] | None]] = []  # name and, for a function, the lines of its body
        self.spans: list[tuple[cst.CSTNode, frozenset[int]]] = []
        self.silent: set[cst.CSTNode] = set()

    def _lines(self, first: cst.CSTNode, last: cst.CSTNode | None = None) -> frozenset[int]:
        start = self.get_metadata(PositionProvider, first).start.line
        span = self.get_metadata(PositionProvider, last or first)
        return frozenset(range(start, (span.start.line if last else span.end.line) + 1))

    def on_visit(self, node: cst.CSTNode) -> bool:
        if node in self.statements:
            self.top = self.statements[node]
        if node in self.silent or self._is_left_alone(node):
            return False
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            body = self._lines(node.body) if isinstance(node, cst.FunctionDef) else None
            self.scope.append((node.name.value, body))
        if isinstance(node, cst.SimpleStatementLine):
            self.spans.append((node, self._lines(node)))
        elif isinstance(node, cst.If | cst.While | cst.For | cst.With):
            self.spans.append((node, self._lines(node, node.body)))
        elif isinstance(node, cst.FunctionDef):  # decorators and defaults: whoever calls the function
            self.spans.append((node, self._lines(node.body)))
        if isinstance(node, cst.Call):
            words = node.args[WORDING.get(_called(node), len(node.args)) :]
            self.silent.update(words, (a for a in node.args if a.keyword and a.keyword.value in QUIET))
        for kind, operator in OPERATORS:
            if isinstance(node, kind) and (self.scope or not self.data or operator is mutators.operator_number):
                for changed in operator(node):
                    self._add(node, changed)
        return True

    def on_leave(self, node: cst.CSTNode) -> None:
        if self.spans and self.spans[-1][0] is node:
            self.spans.pop()
        if isinstance(node, cst.FunctionDef | cst.ClassDef) and self.scope and self.scope[-1][0] == node.name.value:
            self.scope.pop()

    def _is_left_alone(self, node: cst.CSTNode) -> bool:
        match node:
            case cst.Annotation() | cst.Import() | cst.ImportFrom() | cst.Raise():
                return True
            case cst.FunctionDef(name=cst.Name(value=name)):
                return name in SPEAKING
            case cst.SimpleString(value=text):
                return text.startswith(('"""', '"('))  # a docstring, a shape
            case cst.Assign(targets=targets):
                names = {t.value for target in targets for t in self._names(target.target)}
                return bool(names) and names <= WORDS
        return False

    @staticmethod
    def _names(target: cst.BaseExpression) -> list[cst.Name]:
        targets = [e.value for e in target.elements] if isinstance(target, cst.Tuple) else [target]
        return [t for t in targets if isinstance(t, cst.Name)]

    def _add(self, node: cst.CSTNode, changed: cst.CSTNode) -> None:
        inside = any(body is not None for _, body in self.scope)
        lines = self.spans[-1][1] if inside else frozenset()  # none: reached by every import
        fewer = isinstance(node, cst.Call) and isinstance(changed, cst.Call) and len(changed.args) < len(node.args)
        if fewer and {*node.args} - {*changed.args} <= self.silent:
            return
        where = ".".join(name for name, _ in self.scope)
        self.found.append((node, changed, where, lines, self.top, inside))


def mutants_of(module: str) -> list[Mutant]:
    """All mutants of ``ops/delta`` or the like, in the order of the file; those that do not compile are left out."""
    source = (LIBRARY / f"{module}.py").read_text(encoding="utf8")
    wrapper = MetadataWrapper(cst.parse_module(source))
    places = _Places(wrapper.module, module in ("costs/models", "costs/hardware"))
    wrapper.visit(places)
    tree, old = wrapper.module, source.splitlines()
    pieces = [tree.code_for_node(part) for part in (*tree.header, *tree.body, *tree.footer)]
    seen, found = Counter(), []
    for node, changed, where, lines, top, inside in places.found:
        part = tree.code_for_node(tree.body[top].deep_replace(node, changed))
        place = len(tree.header) + top
        text = "".join([*pieces[:place], part, *pieces[place + 1 :]])
        new = text.splitlines()
        same = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), None)
        if same is None:
            continue
        rest = next((i for i, (a, b) in enumerate(zip(old[::-1], new[::-1], strict=False)) if a != b), 0)
        rest = min(rest, len(old) - same - 1, len(new) - same - 1)
        was, now = ("\n".join(x.strip() for x in lines_[same : len(lines_) - rest]) for lines_ in (old, new))
        try:
            compile(text, module, "exec")
        except (SyntaxError, ValueError):
            continue
        key = (where, was, now)
        digest = hashlib.sha256("\0".join([*key, str(seen[key])]).encode()).hexdigest()[:8]
        seen[key] += 1
        found.append(Mutant(digest, where or "module", same + 1, lines, was, now, text, inside))
    return found


# --- forks -----------------------------------------------------------------------------------------------------------


class _Changed(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Imports one module from a source that is not the file's."""

    def __init__(self, module: str, source: str):
        importlib.machinery.SourceFileLoader.__init__(
            self, "attnledger." + module.replace("/", "."), str(LIBRARY / f"{module}.py")
        )
        self.source = source

    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_file_location(name, self.path, loader=self) if name == self.name else None

    def get_code(self, name):
        return compile(self.source, self.path, "exec", dont_inherit=True)


def _change(module: str, mutant: Mutant) -> None:
    """Give the changed function or method its new code and defaults, wherever it has been imported to."""
    name = "attnledger." + module.replace("/", ".")
    changed = types.ModuleType(name)
    changed.__package__ = name.rpartition(".")[0]
    exec(compile(mutant.source, module, "exec"), vars(changed))
    old, new = (_function(place, mutant.where) for place in (sys.modules[name], changed))
    for part in ("__code__", "__defaults__", "__kwdefaults__"):
        setattr(old, part, getattr(new, part))


def _function(place: object, where: str) -> types.FunctionType:
    """The function of a module or method of a class at the head of a dotted name, out of its decorators."""
    for name in where.split("."):
        place = inspect.getattr_static(place, name)
        if not isinstance(place, type):
            break
    return inspect.unwrap(place.fget if isinstance(place, property) else getattr(place, "__func__", place))


class _Judges:
    """Pytest plugin: runs chosen tests in order up to the first failure; collected once, asked many times."""

    def __init__(self, work: Callable[["_Judges"], None]):
        self.work, self.failed = work, ""

    def pytest_configure(self, config):
        config.option.tbstyle = "native"  # nobody reads it, and this one costs nothing

    def pytest_runtestloop(self, session):
        self.items = {item.nodeid: item for item in session.items}
        self.work(self)
        return True

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed = self.failed or report.nodeid

    def first_failure(self, order: list[str]) -> str:
        """The first test that fails, empty if all pass."""
        items = [self.items[name] for name in order]
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                break
        return self.failed


class _Reached:
    """Pytest plugin: how long each test takes, and which lines of the module it reaches."""

    def __init__(self, module: str):
        import coverage

        self.path = str(LIBRARY / f"{module}.py")
        self.coverage = coverage.Coverage(data_file=None, config_file=False, include=[self.path])
        self.seconds: dict[str, float] = {}
        self.coverage.start()

    def pytest_runtest_logstart(self, nodeid):
        self.coverage.switch_context(nodeid)

    def pytest_runtest_logfinish(self, nodeid):
        self.coverage.switch_context("")

    def pytest_runtest_logreport(self, report):
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration

    def result(self) -> dict:
        self.coverage.stop()
        by_line = self.coverage.get_data().contexts_by_lineno(self.path)
        lines = {line: [test for test in tests if test in self.seconds] for line, tests in by_line.items()}
        loaded = [name for name in sys.modules if not name.startswith(("attnledger", "tests", "conftest", "_pytest"))]
        return {"seconds": self.seconds, "lines": lines, "loaded": loaded}


def _pytest(files: list[str], *plugins: object) -> int:
    import pytest

    options = ["--assert=plain", "-s", "-o", "addopts=--import-mode=importlib"]
    for plugin in ("cacheprovider", "unraisableexception", "threadexception", "logging", "terminal"):
        options += ["-p", f"no:{plugin}"]
    return pytest.main([*options, f"--rootdir={ROOT}", *files], plugins=plugins)


def in_a_fork(work: Callable[[], object], seconds: float | None = None) -> tuple[object, str]:
    """What ``work`` returns, in a fork that may take so much CPU time; or None and why it ended without."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        if seconds is not None:
            _limit(seconds)
        try:
            answer = json.dumps(work()).encode()
            while answer:
                answer = answer[os.write(writing, answer) :]
        except BaseException:
            if seconds is None:
                traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    wait = 10 * seconds + 60 if seconds else 10**6  # CPU time is what counts; this is for a fork that sleeps
    pieces, end = [], time.monotonic() + wait
    while select.select([reading], [], [], max(end - time.monotonic(), 0))[0]:
        piece = os.read(reading, 2**16)
        pieces.append(piece)
        if not piece:
            break
    else:
        os.kill(child, signal.SIGKILL)
    os.close(reading)
    status = os.waitpid(child, 0)[1]
    text = b"".join(pieces)
    if text:
        return json.loads(text), ""
    if seconds is None:
        sys.exit("tools/mutants.py: no answer from pytest, see above")
    late = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
    return None, "timeout" if late else "crash"


def _limit(seconds: float) -> None:
    """For a fork with a mutant: no output, so much CPU time, 4 GB more memory."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + 2**32, held + 2**32))


# --- runs ------------------------------------------------------------------------------------------------------------


@dataclass
class Module:
    """One module of the library, its tests, and what became of its mutants so far."""

    name: str
    sample: int | None
    outcomes: dict[str, dict] = field(default_factory=dict)

    @cached_property
    def tests(self) -> list[str]:
        folder, _, stem = self.name.partition("/")
        files = ROOT.glob(f"tests/{folder}/test_{'*' if self.name in SHARED else stem.lstrip('_')}.py")
        return sorted(file.relative_to(ROOT).as_posix() for file in files)

    @cached_property
    def mutants(self) -> list[Mutant]:
        found = mutants_of(self.name)
        if self.sample is None or self.sample >= len(found):
            return found
        chosen = set(random.Random(0).sample(sorted(m.id for m in found), self.sample))
        return [m for m in found if m.id in chosen]

    @property
    def kept(self) -> Path:
        return KEPT / f"{self.name.replace('/', '-')}.jsonl"

    @cached_property
    def stamp(self) -> str:
        """Of module and tests when the run began."""
        return self.now()

    def now(self) -> str:
        files = [LIBRARY / f"{self.name}.py", *(ROOT / test for test in self.tests)]
        return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]

    def load(self) -> None:
        if self.kept.exists():
            for line in self.kept.read_text(encoding="utf8").splitlines():
                outcome = json.loads(line)
                self.outcomes[outcome["id"]] = outcome

    def run(self, settled: set[str] | None) -> None:
        """Try every mutant whose outcome is not known for the module and tests as they are.

        With ``settled``, outcomes under older tests hold for what was killed and for these survivors.
        """
        self.load()
        known = {i for i, o in self.outcomes.items() if o["stamp"] == self.stamp}
        if settled is not None:
            known |= {i for i, o in self.outcomes.items() if o["by"] or i in settled}
        todo = [m for m in self.mutants if m.id not in known]
        if not todo:
            return
        self.kept.parent.mkdir(parents=True, exist_ok=True)
        reached, _ = in_a_fork(self._reached)
        if "code" in reached:
            sys.exit(f"{self.name}: its tests fail without a mutant: {' '.join(self.tests)}")
        for name in reached["loaded"]:  # what every fork would import again
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        gc.freeze()  # what is there now need not be looked through, and copied, by every fork
        count = iter(range(1, len(todo) + 1))
        imported = {int(line) for line, tests in reached["lines"].items() if not tests}  # reached, but by no test
        alone = {m.id for m in todo if not m.inside or imported & m.lines}

        def note(mutant: Mutant, by: str) -> None:
            print(f"\r{self.name}: {next(count)} of {len(todo)} ", end="", file=sys.stderr, flush=True)
            with self.kept.open("a", encoding="utf8") as file:
                file.write(json.dumps({"id": mutant.id, "by": by, "stamp": self.stamp}) + "\n")

        def those_inside(judges: _Judges) -> None:
            gc.freeze()
            for mutant in todo:
                order, seconds = self._order(mutant, reached, mutant.id in alone)
                if mutant.id not in alone:

                    def attempt(mutant: Mutant = mutant, order: list[str] = order) -> str:
                        _change(self.name, mutant)
                        return judges.first_failure(order)

                    answer, why = in_a_fork(attempt, seconds) if order else ("", "")
                    note(mutant, why or answer)

        def in_its_own(mutant: Mutant, order: list[str]) -> str:
            sys.meta_path.insert(0, _Changed(self.name, mutant.source))
            judges = _Judges(lambda judges: judges.first_failure(order))
            code = _pytest(sorted({test.partition("::")[0] for test in order}), judges)
            return judges.failed or ("import" if code else "")

        in_a_fork(lambda: _pytest(self.tests, _Judges(those_inside)))
        next(itertools.islice(count, n := len(todo) - len(alone), n), None)
        for mutant in todo:
            if mutant.id in alone:
                order, seconds = self._order(mutant, reached, mutant.id in alone)
                answer, why = in_a_fork(lambda m=mutant, o=order: in_its_own(m, o), seconds)
                note(mutant, why or answer)
        self.load()
        print(file=sys.stderr)

    def _order(self, mutant: Mutant, reached: dict, alone: bool) -> tuple[list[str], float]:
        """The tests that reach the mutant, the one that killed it before first, then the quickest; and their limit."""
        seconds = reached["seconds"]
        tests = {test for line in mutant.lines for test in reached["lines"].get(str(line), ())}
        tests = tests or (set(seconds) if alone else set())
        before = self.outcomes.get(mutant.id, {}).get("by")
        order = sorted(tests, key=lambda test: (test != before, seconds[test], test))
        return order, (6 if alone else 2) + 5 * sum(seconds[test] for test in tests)

    def _reached(self) -> dict:
        plugin = _Reached(self.name)
        code = _pytest(self.tests, plugin)
        return {"code": int(code)} if code else plugin.result()


def judge(modules: list[Module], listed: dict[str, list[dict]], fresh: bool) -> int:
    """Print the table and what is wrong; return the exit status."""
    wrong, sums = [], Counter()
    print("| module | mutants | killed | of them timeouts | survive, listed | survive, unlisted | killed % |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for module in modules:
        reasons = {entry["id"]: entry["reason"] for entry in listed.get(module.name) or []}
        alive = [m for m in module.mutants if not module.outcomes[m.id]["by"]]
        late = sum(module.outcomes[m.id]["by"] == "timeout" for m in module.mutants)
        unlisted = [m for m in alive if not reasons.get(m.id)]
        total, killed = len(module.mutants), len(module.mutants) - len(alive)
        name = module.name if module.sample is None else f"{module.name} (a sample)"
        share = 100 * killed / max(total, 1)
        row = (total, killed, late, len(alive) - len(unlisted), len(unlisted))
        sums.update(dict(enumerate(row)))
        print(f"| {name} | {' | '.join(map(str, row))} | {share:.1f} |")
        if fresh and any(module.outcomes[m.id]["stamp"] != module.now() for m in module.mutants):
            wrong.append(f"{module.name}: it or its tests changed during the run; run it again")
        if killed < LEAST * total:
            wrong.append(f"{module.name}: {share:.1f} % killed, fewer than {100 * LEAST:.0f} %")
        if unlisted:
            wrong.append(f"{module.name}: survivors that tests/mutants.yaml does not list:")
            for m in unlisted:
                entry = {"id": m.id, "in": m.where, "was": m.was, "now": m.now, "reason": ""}
                text = yaml.safe_dump([entry], sort_keys=False, allow_unicode=True, width=10**6)
                wrong.append(f"# line {m.line}\n{text}".rstrip())
        if module.sample is None:
            gone = [i for i in reasons if i not in {m.id for m in alive}]
            wrong += [f"{module.name}: {i} is listed, but it does not survive or is no mutant any more" for i in gone]
    if len(modules) > 1:
        print(f"| all | {' | '.join(str(sums[i]) for i in range(5))} | {100 * sums[1] / max(sums[0], 1):.1f} |")
    print("\n".join(["", *wrong]) if wrong else "\nEvery survivor is listed with its reason.")
    return bool(wrong)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("modules", nargs="*", help="ops/delta and the like; all if none")
    arguments.add_argument("--sample", type=int, help="so many mutants of each module, drawn with a fixed seed")
    arguments.add_argument("--survivors", action="store_true", help="ask again only about survivors not listed")
    arguments.add_argument("--report", action="store_true", help="run nothing: the table of what is known")
    chosen = arguments.parse_args()
    files = [file for part in ("costs", "ops") for file in sorted(LIBRARY.glob(f"{part}/*.py"))]
    every = [f"{file.parent.name}/{file.stem}" for file in files]
    every = [name for name in every if not name.endswith("/__init__")]
    unknown = set(chosen.modules) - set(every)
    if unknown:
        sys.exit(f"no such module: {', '.join(sorted(unknown))}; there are {', '.join(every)}")
    listed = (yaml.safe_load(LISTED.read_text(encoding="utf8")) if LISTED.exists() else None) or {}
    modules = [Module(name, chosen.sample) for name in chosen.modules or every]
    if chosen.report:
        for module in modules:
            module.load()
            module.mutants = [m for m in module.mutants if m.id in module.outcomes]
        return judge(modules, listed, fresh=False)
    import hypothesis
    import torch

    torch.set_num_threads(1)
    hypothesis.settings.register_profile(
        "mutants",
        derandomize=True,
        database=None,
        deadline=None,
        phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    hypothesis.settings.load_profile("mutants")
    os.chdir(ROOT)
    for module in modules:
        began = time.monotonic()
        settled = {entry["id"] for entry in listed.get(module.name) or []}
        module.run(settled if chosen.survivors else None)
        print(f"{module.name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    return judge(modules, listed, fresh=not chosen.survivors)


if __name__ == "__main__":
    sys.exit(main())
