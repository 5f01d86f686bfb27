"""Reads rule files into rules, and refuses a wrong one with its file name, key and what is wrong."""

from __future__ import annotations

import dataclasses
import itertools
import re
import tomllib
from collections.abc import Collection, Iterable
from pathlib import Path

from hangscope.diagnose import defects
from hangscope.diagnose.catalogue import causes
from hangscope.diagnose.outline import outline
from hangscope.diagnose.reader import Table, suggest, type_name
from hangscope.diagnose.rule import (
    SHARED_KEYS,
    Case,
    Condition,
    FieldTest,
    Heading,
    Operator,
    Rule,
    RuleRemedy,
    Scalar,
    Status,
    When,
)
from hangscope.diagnose.template import SUMMARY_NAMES, placeholders
from hangscope.diagnose.versions import parse_requirement
from hangscope.diagnose.where import find_line, line_of_byte, line_of_error
from hangscope.errors import RuleError
from hangscope.expressions import expression
from hangscope.resources import rules_dir

_RULE_KEYS = (
    *("id", "cause", "role", "status", "since", "title", "weight", "confidence", "explanation", "explains"),
    *("explains_late", "false_positives", "references", "aliases", "when", "remedies", "cases"),
)
_WHEN_KEYS = ("all", "any", "none", "share", "before", "culprits", "min_count")
_FIRST_TABLE = expression(r"^\[", re.MULTILINE)
_WHEN = expression(r"^\[when\]\n(.*?)(?=^\[|\Z)", re.MULTILINE | re.DOTALL)
_BESIDE_RULES = ("causes.toml", "settings.toml")
_MAX_BYTES = 1 << 20

# The longest suffix first, so that the plain comparison comes last.
_OPERATORS = sorted(Operator, key=len, reverse=True)


def rule_files(extra_dirs: Iterable[str | Path] = (), family: str = "", *, shipped: bool = True) -> list[Path]:
    """Files of the shipped rules and of those the user adds, sorted within each folder.

    Args:
        extra_dirs: the user's folders.
        family: only rules of this family, "" = all.
        shipped: with the shipped ones.

    Raises:
        RuleError: a folder of the user's does not exist.
    """
    files: list[Path] = []
    for folder in (*((rules_dir(),) if shipped else ()), *map(Path, extra_dirs)):
        if not folder.is_dir():
            raise RuleError(f"{folder}: no such folder", "--rules takes a folder that holds <family>/<rule-id>.toml.")
        files += sorted(folder.glob(f"{family or '*'}/*.toml"))
        files += (
            sorted(folder.glob(f"{defects.FAMILY}/{defects.FOLDER}/*.toml")) if family in ("", defects.FAMILY) else []
        )
        if stray := sorted(path.name for path in folder.glob("*.toml") if path.name not in _BESIDE_RULES):
            raise RuleError(
                f"{folder.name}/{stray[0]}: lies outside of the folder of a family",
                f"Move it to {folder.name}/<family>/{stray[0]}; `hangscope rules` shows the families.",
            )
    return files


def load_rules(extra_dirs: Iterable[str | Path] = (), family: str = "") -> tuple[Rule, ...]:
    """Loads the shipped rules, and those in the user's folders.

    Fact kinds and fields are not checked here, because that takes the grammars: see `check.check_rules`.

    Args:
        extra_dirs: folders with further rules, laid out like the shipped ones.
        family: only rules of this family, "" = all.

    Raises:
        RuleError: a file is wrong, or two rules have one id.
    """
    files = rule_files(extra_dirs, family)
    rules = tuple(load_rule(path) for path in files)
    owners: dict[str, Rule] = {}
    for path, rule in zip(files, rules, strict=True):
        for name in (rule.id, *rule.aliases):
            if name in owners:
                key = "id" if name == rule.id else "aliases"
                error = RuleError(f"{rule.file}: {key}: {name!r} is taken by {owners[name].file}", key=key)
                raise error.on_line(find_line(_read(path), key))
            owners[name] = rule
    return rules


def load_rule(path: Path) -> Rule:
    """Loads one rule file.

    Raises:
        RuleError: with the file, the line, the key and what is wrong with it.
    """
    text = _read(path)
    try:
        return _load(path, text)
    except RuleError as error:
        raise error.on_line(find_line(text, error.key)) from error


def family_of(path: Path) -> str:
    """The family whose folder a rule's file lies in."""
    return path.parent.parent.name if defects.is_defect(path) else path.parent.name


def _load(path: Path, text: str) -> Rule:
    table = _parse(path, text)
    if not defects.is_defect(path):
        return read_rule(table, name=path.stem, family=family_of(path))
    rule = read_rule(defects.complete(table), name=path.stem, family=family_of(path))
    return dataclasses.replace(rule, affected=defects.read_affected(table))


def read_rule(table: Table, name: str, family: str) -> Rule:
    """Turns a parsed file into a rule; ``name`` and ``family`` are what its path says."""
    table.allow(_RULE_KEYS)
    if table.text("id") != name:
        raise table.error("id", f"must be the name of the file, {name!r}, is {table.text('id')!r}")
    cause = table.text("cause")
    if cause not in causes():
        raise table.error("cause", f"{cause!r} is no cause{suggest(cause, causes())}")
    if causes()[cause].family != family:
        home = causes()[cause].family
        advice = f"Move the file to {home}/{name}.toml, beside the folder {family}/."
        raise table.error("cause", f"{cause!r} is of the family {home!r}, the folder is {family!r}", advice)
    explains = table.texts("explains")
    for item in explains:
        if item not in causes():
            raise table.error("explains", f"{item!r} is no cause{suggest(item, causes())}")
    when = _read_when(table.table("when"))
    return Rule(
        id=name,
        file=table.file,
        cause=cause,
        family=family,
        role=table.role("role"),
        status=Status(table.text("status", among=tuple(Status))),
        since=table.text("since"),
        title=_read_template(table, "title", when),
        weight=table.whole("weight", 0, 100),
        confidence=float(table.number("confidence", 0, 1)),
        explanation=_read_template(table, "explanation", when),
        when=when,
        explains=explains,
        explains_late=table.flag("explains_late", default=False),
        remedies=tuple(_read_remedy(item, when) for item in table.tables("remedies")),
        false_positives=table.texts("false_positives", required=True),
        references=table.texts("references", required=True),
        aliases=table.texts("aliases"),
        cases=_read_cases(table),
    )


def read_needs(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The kinds of facts that the entries of `all` and of `any` name; no other part of the rule is read.

    Raises:
        RuleError: with the file, the line, the key and what is wrong with it.
    """
    text = _read(path)
    try:
        # a case may hold such a line, too, but the conditions stand before it
        found = _WHEN.search(text)
        table = _parse(path, found[1] if found is not None else "")
        when = _read_when(table)
    except RuleError:
        when = _load(path, text).when
    return tuple(one.fact for one in when.all), tuple(one.fact for one in when.any)


def read_head(path: Path) -> tuple[Heading, tuple[str, ...]]:
    """What a list of rules shows of one, and the causes it accounts for; conditions and cases are not read.

    Raises:
        RuleError: with the file, the line, the key and what is wrong with it.
    """
    text = _read(path)
    try:
        table = _parse(path, _FIRST_TABLE.split(text, maxsplit=1)[0])
    except RuleError:
        # A line of the explanation began with a bracket.
        table = _parse(path, text)
    table = defects.complete(table) if defects.is_defect(path) else table
    heading = Heading(
        family=family_of(path),
        id=table.text("id"),
        cause=table.text("cause"),
        role=table.text("role"),
        status=table.text("status"),
        since=table.text("since"),
        weight=table.whole("weight", 0, 100),
        title=outline(_read_template(table, "title")),
    )
    return heading, table.texts("explains")


def _read(path: Path) -> str:
    try:
        if not path.is_file():
            raise RuleError(f"{_label(path)}: is no file")
        if path.stat().st_size > _MAX_BYTES:
            advice = "A rule has a few kilobytes; give long log lines in its cases in part."
            raise RuleError(f"{_label(path)}: is larger than {_MAX_BYTES >> 20} MiB", advice)
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        wrong = RuleError(f"{_label(path)}: is not UTF-8: {error.reason}", "Save it as UTF-8.")
        raise wrong.on_line(line_of_byte(error.object, error.start)) from error
    except OSError as error:
        raise RuleError(f"{_label(path)}: {error.strerror or error}") from error


def _parse(path: Path, text: str) -> Table:
    try:
        return Table(_label(path), "", tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        message, line = line_of_error(error, text)
        raise RuleError(f"{_label(path)}: no valid TOML: {message}").on_line(line) from error
    except RecursionError as error:
        raise RuleError(f"{_label(path)}: no valid TOML: brackets are nested too deeply").on_line(1) from error


def _label(path: Path) -> str:
    return "/".join(path.parts[-4 if defects.is_defect(path) else -3 :])


def _read_when(table: Table) -> When:
    table.allow(_WHEN_KEYS)
    every = tuple(_read_condition(item, same=False) for item in table.tables("all"))
    some = tuple(_read_condition(item) for item in table.tables("any"))
    if not every and not some:
        raise table.error("all", "is missing; a rule needs an entry in all or in any")
    names = [condition.name for condition in every]
    for name in names:
        if names.count(name) > 1 or name in {condition.name for condition in some}:
            raise table.error("all", f"{name!r} is bound twice", "Give each entry an `as` of its own.")
    share = table.texts("share")
    if share and len(every) < 2:
        raise table.error("share", "needs at least two entries in all", "For an entry of any or none, write same = ...")
    culprits = table.text("culprits", default="")
    bound = {*names, *(condition.name for condition in some)}
    if culprits and culprits not in bound | {"all", "none"}:
        raise table.error("culprits", f"{culprits!r} is not bound{suggest(culprits, bound)}")
    return When(
        all=every,
        any=some,
        none=tuple(_read_condition(item) for item in table.tables("none")),
        share=share,
        before=_read_before(table, names),
        culprits=culprits,
        min_count=table.whole("min_count", 1, 1_000_000, default=1),
    )


def _read_before(table: Table, names: Collection[str]) -> tuple[tuple[str, str], ...]:
    pairs = table.values.get("before", [])
    if not isinstance(pairs, list):
        raise table.error("before", f"must be a list of pairs of names, is {type_name(pairs)}")
    found: list[tuple[str, str]] = []
    for number, pair in enumerate(pairs):
        match pair:
            case [str(earlier), str(later)] if earlier != later:
                found.append((earlier, later))
            case _:
                raise table.error(f"before[{number}]", f"must be a pair of names, is {pair!r}")
        for name in found[-1]:
            if name not in names:
                raise table.error(f"before[{number}]", f"{name!r} is not bound in all{suggest(name, names)}")
    return tuple(found)


def _read_condition(table: Table, *, same: bool = True) -> Condition:
    fact = table.text("fact")
    name = table.text("as", default=fact)
    if name in ("all", "none", *SUMMARY_NAMES):
        raise table.error("as", f"{name!r} has a meaning of its own and cannot name a fact")
    if "same" in table.values and not same:
        raise table.error("same", "is for entries of any and none", "Entries of all are joined by when.share.")
    tests = tuple(_read_test(table, key) for key in table.values if key not in ("fact", "as", "same"))
    return Condition(fact, name, tests, table.text("same", default="", among=SHARED_KEYS) if same else "")


def _read_test(table: Table, key: str) -> FieldTest:
    kind = next(item for item in _OPERATORS if key.endswith(item.value))
    field = key.removesuffix(kind.value)
    value = table.values[key]
    if not field:
        raise table.error(key, "names no field")
    match kind:
        case Operator.EXISTS:
            return FieldTest(field, kind, table.flag(key))
        case Operator.MIN | Operator.MAX:
            return FieldTest(field, kind, table.number(key, float("-inf"), float("inf")))
        case Operator.CONTAINS:
            texts = (table.text(key),) if isinstance(value, str) else table.texts(key, required=True)
            return FieldTest(field, kind, tuple(text.casefold() for text in texts))
        case Operator.IN:
            if not isinstance(value, list) or not value:
                raise table.error(key, "must be a list that is not empty")
            return FieldTest(field, kind, tuple(_scalar(table, key, item) for item in value))
        case Operator.EQUALS:
            if isinstance(value, list):
                return FieldTest(field, kind, tuple(_scalar(table, key, item) for item in value))
            return FieldTest(field, kind, _scalar(table, key, value))


def _scalar(table: Table, key: str, value: object) -> Scalar:
    if not isinstance(value, str | int | float | bool):
        raise table.error(key, f"must be a string, a number or a boolean, is {type_name(value)}")
    return value


def _read_template(table: Table, key: str, when: When | None = None) -> str:
    text = table.text(key).strip()
    if key == "title" and "\n" in text:
        raise table.error(key, "must be one line")
    try:
        wanted = placeholders(text)
    except ValueError as error:
        raise table.error(key, str(error), "Write a brace that is meant as such twice: {{ }}.") from error
    if when is None:
        return text
    bound = {condition.name for condition in itertools.chain(when.all, when.any)}
    for item in wanted:
        if not item.field and item.name not in SUMMARY_NAMES:
            known = ", ".join(SUMMARY_NAMES)
            raise table.error(key, f"{{{item.name}}} is none of {known}, and no field of a fact")
        if item.field and item.name not in bound:
            raise table.error(key, f"{{{item.name}.{item.field}}}: no fact is bound as {item.name!r}")
    return text


def _read_remedy(table: Table, when: When) -> RuleRemedy:
    table.allow(("text", "command", "versions"))
    versions = table.text("versions", default="")
    try:
        parse_requirement(versions) if versions else None
    except ValueError as error:
        raise table.error("versions", str(error)) from error
    # Commands are not templates: shells are full of braces.
    command = table.text("command").strip() if "command" in table.values else None
    return RuleRemedy(_read_template(table, "text", when), command, versions)


def _read_cases(table: Table) -> tuple[Case, ...]:
    cases: list[Case] = []
    for item in table.tables("cases"):
        item.allow(("name", "fires", "lines", "fixture"))
        if ("lines" in item.values) == ("fixture" in item.values):
            raise item.error("lines", "a case has either lines or a fixture")
        case = Case(item.text("name"), item.flag("fires"), item.text("lines", ""), item.text("fixture", ""))
        if case.name in {other.name for other in cases}:
            raise item.error("name", f"{case.name!r} is taken by another case of this rule")
        cases.append(case)
    for fires, what in ((True, "fires the rule"), (False, "looks like it and does not fire it")):
        if not any(case.fires is fires for case in cases):
            raise table.error("cases", f"needs a case that {what}")
    return tuple(cases)
