"""A pytest plugin: each outcome is in a file as soon as its test ends, so that a run stopped on its way leaves some.

    python -m pytest -p benchmarks.outcomes --outcomes FILE

A line of JSON for each: {"collected": tests}, {"begun": test}, {"test", "outcome", "seconds", "said"}.
"""

import json


def pytest_addoption(parser):
    parser.addoption("--outcomes", metavar="FILE", help="append each outcome to this file")


def pytest_configure(config):
    if path := config.getoption("--outcomes"):
        config.pluginmanager.register(Outcomes(path))


class Outcomes:
    def __init__(self, path):
        self.path, self.spent = path, {}

    def add(self, **line):
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def pytest_collection_finish(self, session):
        self.add(collected=len(session.items))

    def pytest_collectreport(self, report):
        if report.failed:
            self.add(test=report.nodeid, outcome="error", seconds=0.0, said=str(report.longrepr)[-4000:])

    def pytest_runtest_logstart(self, nodeid):
        self.add(begun=nodeid)

    def pytest_runtest_logreport(self, report):
        name = report.nodeid
        self.spent[name] = self.spent.get(name, 0.0) + report.duration
        kind = {"passed": "passed", "skipped": "skipped"}.get(
            report.outcome, "failure" if report.when == "call" else "error"
        )
        if kind == "passed" and report.when != "call":
            return
        reason = isinstance(report.longrepr, tuple)  # of a skip: file, line, reason
        said = report.longrepr[2] if reason else str(report.longrepr or "")[-4000:]
        self.add(test=name, outcome=kind, seconds=round(self.spent[name], 3), **({"said": said} if said else {}))
