"""Turns a report into plain dictionaries and lists with the keys of the report contract, in a fixed order."""

from __future__ import annotations

import json
from typing import Any

from hangscope.model import (
    AttemptResult,
    CollectiveState,
    ComparedValue,
    Comparison,
    Consequence,
    Evidence,
    Finding,
    InferredVersion,
    JobInfo,
    NextStep,
    RankState,
    Report,
    SourceRecord,
    StackNode,
    StackState,
    StoryStep,
)
from hangscope.report.options import RenderOptions
from hangscope.report.printable import printable
from hangscope.report.spans import confidence_word, fold_hosts, fold_numbers
from hangscope.report.times import iso_time

Plain = dict[str, Any]
"""What `json.dumps` takes: the values are strings, numbers, None, lists and dictionaries of these."""


def json_text(plain: Plain, options: RenderOptions) -> str:
    """The text of a file of JSON: indented, its end a line end, in characters that the stream has."""
    return json.dumps(plain, ensure_ascii=not options.takes_all, indent=2, allow_nan=False) + "\n"


def to_dict(report: Report) -> Plain:
    """The report as the contract writes it; text is made printable, so no reader needs to do it again."""
    return {
        "schema_version": report.schema_version,
        "hangscope_version": report.hangscope_version,
        "job": plain_job(report.job),
        "verdict": plain_finding(report.verdict),
        "findings": [plain_finding(finding) for finding in report.findings],
        "collectives": [_collective(state) for state in report.collectives],
        "ranks": [_rank(state) for state in report.ranks],
        "stacks": [_stack(state) for state in report.stacks],
        "stack_tree": [_node(node) for node in report.stack_tree],
        "comparisons": [_comparison(comparison) for comparison in report.comparisons],
        "attempts": [_attempt(result) for result in report.attempts],
        "story": [_step(step) for step in report.story],
        "next_steps": [_next_step(step) for step in report.next_steps],
        "sources": [_source(source) for source in report.sources],
        "warnings": [_prose(warning) for warning in report.warnings],
    }


def plain_job(job: JobInfo) -> Plain:
    """The key ``job``."""
    return {
        "world_size": job.world_size,
        "ranks_seen": list(job.ranks_seen),
        "hosts": [printable(host) for host in job.hosts],
        "torch_version": _version(job.torch_version),
        "nccl_version": _version(job.nccl_version),
        "cuda_version": _version(job.cuda_version),
        "driver_version": _version(job.driver_version),
        "launcher": _optional(job.launcher),
        "first_time": job.first_time,
        "last_time": job.last_time,
        "inferred": {product: _inferred(job.inferred[product]) for product in sorted(job.inferred)},
    }


def _inferred(version: InferredVersion) -> Plain:
    return {
        "first": _optional(version.first),
        "last": _optional(version.last),
        "text": printable(version.text),
        "by": printable(version.by),
        "evidence": [_evidence(evidence) for evidence in version.evidence],
    }


def plain_finding(finding: Finding) -> Plain:
    """An entry of ``findings``."""
    return {
        "cause": finding.cause,
        "role": str(finding.role),
        "title": printable(finding.title),
        "ranks": list(finding.ranks),
        "affected_ranks": list(finding.affected_ranks),
        "hosts": [printable(host) for host in finding.hosts],
        "confidence": round(finding.confidence, 3),
        "confidence_word": confidence_word(finding.confidence),
        "explanation": _prose(finding.explanation),
        "remedies": [_advice(remedy.text, remedy.command) for remedy in finding.remedies],
        "evidence": [_evidence(evidence) for evidence in finding.evidence],
        "also_said": [_evidence(evidence) for evidence in finding.also_said],
        "explained_by": finding.explained_by,
        "explains": [_consequence(one) for one in finding.explains],
        "rule": finding.rule,
        "time": iso_time(finding.time),
    }


def _attempt(result: AttemptResult) -> Plain:
    verdict = result.verdict
    return {
        "attempt": result.number,
        "cause": verdict.cause,
        "title": printable(verdict.title),
        "ranks": list(verdict.ranks),
        "hosts": [printable(host) for host in verdict.hosts],
        "confidence": round(verdict.confidence, 3),
        "time": iso_time(verdict.time),
    }


def _consequence(one: Consequence) -> Plain:
    return {"cause": one.cause, "rule": one.rule, "ranks": list(one.ranks), "delay_s": _seconds(one.delay_s)}


def _seconds(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _evidence(evidence: Evidence) -> Plain:
    return {
        "file": printable(evidence.at.file),
        "line": evidence.at.line,
        "text": printable(evidence.text),
        "why": _prose(evidence.why),
        **{
            side: [printable(line) for line in lines]
            for side, lines in (("before", evidence.before), ("after", evidence.after))
            if lines
        },
    }


def _collective(state: CollectiveState) -> Plain:
    return {
        "group": printable(state.group),
        "group_size": state.group_size,
        "seq": state.seq,
        "op": printable(state.op),
        "arrived": list(state.arrived),
        "missing": list(state.missing),
        # JSON has only strings for keys; numbers in order all the same
        "differing": {str(rank): printable(state.differing[rank]) for rank in sorted(state.differing)},
        "description": printable(state.description),
        "where": printable(state.where) or None,
    }


def _rank(state: RankState) -> Plain:
    return {
        "rank": state.rank,
        "host": _optional(state.host),
        "pid": state.pid,
        "gpu": _optional(state.gpu),
        "state": state.state,
        "where": _optional(state.where),
        "last_seen": state.last_seen,
    }


def _stack(state: StackState) -> Plain:
    return {
        "ranks": list(state.ranks),
        "processes": [printable(name) for name in state.processes],
        "count": state.count,
        "role": state.role,
        "state": state.state,
        "operation": printable(state.operation) or None,
        "activity": printable(state.activity) or None,
        "where": _optional(state.where),
        "frames": [printable(frame) for frame in state.frames],
        "outlier": state.outlier,
        "change": state.change or None,
        "file": printable(state.at.file),
        "line": state.at.line,
    }


def _node(node: StackNode) -> Plain:
    """A frame and what it calls; `find_stack_tree` bounds the depth."""
    return {
        "frame": printable(node.frame),
        "ranks": list(node.ranks),
        "count": node.count,
        "children": [_node(child) for child in node.children],
    }


def _comparison(comparison: Comparison) -> Plain:
    return {
        "topic": comparison.topic,
        "aspect": printable(comparison.aspect),
        "must_agree": comparison.must_agree,
        "differs": comparison.differs,
        "values": [plain_value(value) for value in comparison.values],
    }


def plain_value(value: ComparedValue) -> Plain:
    """Ranks and hosts as ranges: a thousand of them have the same value in most respects."""
    return {
        "value": printable(value.text),
        "ranks": fold_numbers(value.ranks, strides=False),
        "hosts": printable(fold_hosts(value.hosts)),
        "files": [printable(name) for name in value.names],
        "count": value.count,
        "evidence": None if value.evidence is None else _evidence(value.evidence),
    }


def _step(step: StoryStep) -> Plain:
    return {
        "time": step.time,
        "ranks": list(step.ranks),
        "text": _prose(step.text),
        "cause": step.cause,
        "explained_by": step.explained_by,
        "delay_s": _seconds(step.delay_s),
        "evidence": [_evidence(evidence) for evidence in step.evidence],
    }


def _source(source: SourceRecord) -> Plain:
    return {
        "file": printable(source.file),
        "kind": source.kind,
        "lines": source.lines,
        "bytes": source.bytes,
        "unrecognized": source.unrecognized,
        "error": None if source.error is None else _prose(source.error),
    }


def _advice(text: str, command: str | None) -> Plain:
    return {"text": _prose(text), "command": None if command is None else _prose(command)}


def _next_step(step: NextStep) -> Plain:
    return {**_advice(step.text, step.command), "decides": None if step.decides is None else _prose(step.decides)}


def _version(version: str | tuple[str, ...] | None) -> str | list[str] | None:
    if version is None or isinstance(version, str):
        return _optional(version)
    return [printable(one) for one in version]


def _optional(text: str | None) -> str | None:
    return None if text is None else printable(text)


def _prose(text: str) -> str:
    return printable(text, keep="\t\n")
