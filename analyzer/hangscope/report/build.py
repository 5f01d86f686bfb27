"""Builds the report out of the aligned job and its diagnosis."""

from __future__ import annotations

import hangscope
from hangscope.model import AttemptResult, CollectiveState, Comparison, History, InferredVersion, JobInfo, Report
from hangscope.report.advice import advise
from hangscope.report.attempts import describe_attempts
from hangscope.report.comparisons import with_lone_lines
from hangscope.report.given_settings import remarks_on_settings
from hangscope.report.inputs import DiagnosisView, JobView, StuckView
from hangscope.report.rank_states import find_rank_states
from hangscope.report.said import with_what_was_said
from hangscope.report.stack_states import find_stack_states, find_stack_tree
from hangscope.report.story import tell_story
from hangscope.report.times import iso_time


def build_report(
    job: JobView,
    diagnosis: DiagnosisView,
    comparisons: tuple[Comparison, ...] = (),
    attempts: tuple[AttemptResult, ...] = (),
    history: History | None = None,
) -> Report:
    """Everything there is to say about one job; the same input gives the same report.

    Args:
        job: the aligned job.
        diagnosis: its verdict, and all findings.
        comparisons: what its ranks and hosts have in each respect.
        attempts: how the attempts before the last one ended, the oldest first.
        history: what the ranks called last, when it is wanted.
    """
    verdict = with_lone_lines(diagnosis.verdict, comparisons)
    findings = tuple(verdict if finding == diagnosis.verdict else finding for finding in diagnosis.findings)
    findings = findings if verdict in findings else (verdict, *findings)
    place = findings.index(verdict)
    findings = with_what_was_said(job, findings, place)
    return Report(
        hangscope_version=hangscope.__version__,
        job=_job_info(job),
        verdict=findings[place],
        findings=findings,
        collectives=tuple(_collective(stuck) for stuck in job.stuck),
        ranks=find_rank_states(job, diagnosis),
        story=tell_story(job, diagnosis),
        next_steps=advise(job, diagnosis),
        sources=job.sources,
        warnings=tuple(
            dict.fromkeys(
                [
                    *job.warnings,
                    *describe_attempts(attempts, verdict),
                    *(remark.warning for remark in remarks_on_settings(job)),
                ]
            )
        ),
        stacks=find_stack_states(job.stacks),
        stack_tree=find_stack_tree(job.stacks),
        comparisons=comparisons,
        attempts=attempts,
        history=history,
    )


def _job_info(job: JobView) -> JobInfo:
    firsts = [process.first_time for process in job.processes if process.first_time is not None]
    lasts = [process.last_time for process in job.processes if process.last_time is not None]
    return JobInfo(
        world_size=job.world_size,
        ranks_seen=tuple(sorted(job.ranks)),
        hosts=job.hosts,
        torch_version=job.versions.torch,
        nccl_version=job.versions.nccl,
        cuda_version=job.versions.cuda,
        driver_version=job.versions.driver,
        launcher=job.launcher,
        first_time=iso_time(min(firsts, default=None)),
        last_time=iso_time(max(lasts, default=None)),
        inferred={
            product: InferredVersion(found.first, found.last, str(found), found.by, found.evidence)
            for product, found in sorted(job.versions.inferred.items())
        },
    )


def _collective(stuck: StuckView) -> CollectiveState:
    return CollectiveState(
        group=stuck.group,
        group_size=stuck.group_size,
        seq=stuck.seq,
        op=stuck.op,
        arrived=tuple(sorted(stuck.arrived)),
        missing=tuple(sorted(stuck.missing)),
        differing={rank: stuck.differing[rank] for rank in sorted(stuck.differing)},
        description=stuck.description,
        where=stuck.where,
    )
