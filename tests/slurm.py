"""The measuring steps on a SLURM of this machine's own: as they are, with a job cancelled, and with
one out of memory.

Debian's `slurm-wlm` and `munge` have the daemons, which run here on loopback, without an accounting
database, and end with the part.
"""

import getpass
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from subprocess import PIPE, STDOUT

from tests.stress import NEVER, ROOT, Count, judge, left, whole, workshop

PLUGIN = "snakemake-executor-plugin-slurm"
DAEMONS = ("munged", "slurmctld", "slurmd")
MODELS = ("m0", "m1")  # of the toy family: a job each
CONF = """\
ClusterName=stress
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={place}/munge.socket
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
AccountingStorageType=accounting_storage/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
MinJobAge=7200
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=16 RealMemory=12000
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
# Every Python of a job loads this first: one that measures a model waits, m0's holding as much
# memory as it is told.
HOG = """\
import os, sys, time
if {"toy/m0", "toy/m1"} & {*sys.orig_argv} and int(os.environ["HOG_MB"]):
    held = b"x" * (int(os.environ["HOG_MB"]) << 20) if "toy/m0" in sys.orig_argv else b""
    time.sleep(5)
"""


def answer(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def jobs(model):
    """(number, state, MB asked) of each job that SLURM knows of that measures a model, oldest
    first."""
    lines = answer(
        "squeue", "--states=all", "--noheader", "--sort=i", "--format=%i|%T|%m|%k"
    ).splitlines()
    found = [line.split("|") for line in lines if line.endswith(f"toy_{model}")]
    return [
        (number, state, round(float(mb[:-1]) * {"M": 1, "G": 1024}[mb[-1]]))
        for number, state, mb, _ in found
    ]


@contextmanager
def slurm(place):
    """A cluster of one node, this one, until the block ends; else a RuntimeError with what was
    said."""
    for folder in (place, place / "state", place / "spool"):
        folder.mkdir(mode=0o755)
    (place / "munge.key").touch(mode=0o600)
    (place / "munge.key").write_bytes(os.urandom(64))
    with socket.socket() as a, socket.socket() as b:
        ports = [s.bind(("127.0.0.1", 0)) or s.getsockname()[1] for s in (a, b)]
    said = CONF.format(
        place=place, host=socket.gethostname().split(".")[0], user=getpass.getuser(), ports=ports
    )
    (place / "slurm.conf").write_text(said)
    os.environ["SLURM_CONF"] = str(place / "slurm.conf")  # steps of jobs are not told of it
    (place / "srun").write_text(
        f'#!/bin/sh\nSLURM_CONF={place}/slurm.conf exec {shutil.which("srun")} "$@"\n'
    )
    (place / "srun").chmod(0o755)
    os.environ["PATH"] = f"{place}:{os.environ['PATH']}"
    files = [f"--{k}-file={place}/munge.{k}" for k in ("key", "log", "pid", "seed")]
    munged = ["munged", "--force", "--foreground", *files, f"--socket={place}/munge.socket"]
    running = []
    try:
        for command in (munged, ["slurmctld", "-D"], ["slurmd", "-D"]):
            log = (place / f"{command[0]}.said").open("w")
            running.append(subprocess.Popen(command, stdout=log, stderr=log))
            time.sleep(1)
        until = time.monotonic() + 30
        while answer("sinfo", "--noheader", "--format=%T") != "idle":
            if time.monotonic() > until or any(d.poll() is not None for d in running):
                raise RuntimeError(
                    " | ".join((place / f"{n}.said").read_text()[-200:] for n in DAEMONS)
                )
            time.sleep(0.5)
        yield
        answer("scancel", "--full", "--user", getpass.getuser())
    finally:
        for daemon in reversed(running):
            daemon.terminate()
            daemon.wait()


def cluster(place):
    """Two runs by workflow/profiles/slurm of the toy family, a job a model; what fails is sent
    again for more."""
    missing = [d for d in DAEMONS if not shutil.which(d)] + [PLUGIN] * (
        not find_spec(PLUGIN.replace("-", "_"))
    )
    count = Count("cluster", note=f"(skipped: no {', '.join(missing)} here; see CONTRIBUTING.md)")
    if missing:
        return count
    count.note, (expected, _) = "", whole(place)
    for name in ("notebooks", "published", "training", "benchmarks", "_config.yml", "_toc.yml"):
        (place / name).symlink_to(ROOT / name)
    (place / "hook").mkdir()
    (place / "hook" / "sitecustomize.py").write_text(HOG)
    os.environ["PYTHONPATH"] = f"{place / 'hook'}:{ROOT}"
    flow, asked = ROOT / "workflow", 0
    command = [sys.executable, "-m", "snakemake", "--snakefile", flow / "Snakefile"]
    command += ["--directory", place, "--profile", flow / "profiles/slurm"]
    command += ["--config", "families=toy", "corpora=lines,more"]
    command += ["--", *(f"logs/done/measure/toy/{m}" for m in MODELS)]
    log = place / "logs" / "toy-m1.log"
    try:
        with slurm(place / "slurm"):
            for results, jobs_each in ((place / "undisturbed", 1), (place / "disturbed", 2)):
                log.unlink(missing_ok=True)
                known, disturbed = {m: len(jobs(m)) for m in MODELS}, jobs_each == 2
                environment = os.environ | {"RBP_RESULTS": str(results), "HOG_MB": str(asked)}
                run = subprocess.Popen(
                    command, env=environment, stdout=PIPE, stderr=STDOUT, text=True
                )
                while disturbed and run.poll() is None and not log.exists():
                    time.sleep(0.5)
                answer("scancel", jobs("m1")[-1][0]) if disturbed else None
                said = run.communicate(timeout=NEVER)[0]
                seen = {m: jobs(m)[known[m] :] for m in MODELS}
                fine = run.returncode == 0 and left(results) == expected
                for tried in seen.values():
                    _, states, mb = zip(*tried, strict=True)
                    fine &= states[-1] == "COMPLETED" and len(tried) == jobs_each
                    fine &= "COMPLETED" not in states[:-1] and mb[-1] == mb[0] * jobs_each
                asked = max((mb for _, _, mb in seen["m0"]), default=0) + 300
                count.take(fine, f"{results.name}: {seen} {said[-600:]}")
                judge(count, place, results, expected, results.name)
                count.note += f" {results.name}: {seen}"
    except RuntimeError as error:
        count.note = f"skipped: the daemons do not run here: {error}"
    return count


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder:
        result = cluster(workshop(Path(folder) / "root"))
    print(result)
    sys.exit(bool(result.failures))
