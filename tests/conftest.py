"""Fixtures that several test modules share: the checkout's places and a report per case, made once a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import score_fixtures

# a busy machine must not fail a test: nothing here is about time
settings.register_profile("hangscope", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hangscope")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps on one worker what looks at running processes, each other's too, what shares a browser, and the kernels."""
    groups = (("test_attach", "attach"), ("test_report_html_browser", "browser"), ("test_notebooks", "notebooks"))
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            for beginning, group in groups:
                if item.path.name.startswith(beginning):
                    item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def checkout() -> Path:
    """Root of the checkout."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def report_of() -> Callable[[score_fixtures.Case], score_fixtures.Json]:
    """The JSON report on a case; each case is analyzed once however many tests look at its report."""
    made: dict[str, score_fixtures.Json] = {}

    def report(case: score_fixtures.Case) -> score_fixtures.Json:
        if case.name not in made:
            made[case.name] = score_fixtures.analyze(case.logs)
        return made[case.name]

    return report
