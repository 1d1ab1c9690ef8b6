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

from tests.stress import NEVER, ROOT, Count, judge, left, workshop

PLUGIN = "snakemake-executor-plugin-slurm"
DAEMONS = ("munged", "slurmctld", "slurmd")
MODELS = ("m0", "m1")  # of the toy family: a job each
CONF = """\
ClusterName=stress
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={root}/munge.socket
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.pid
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
    form = ("--states=all", "--noheader", "--sort=i", "--format=%i|%T|%m|%k")
    rows = [line.split("|") for line in answer("squeue", *form).splitlines()]
    scale = {"M": 1, "G": 1024}
    return [
        (number, state, round(float(mb[:-1]) * scale[mb[-1]]))
        for number, state, mb, comment in rows
        if comment.endswith(f"toy_{model}")
    ]


@contextmanager
def slurm(root):
    """A cluster of one node, this one, until the block ends; else a RuntimeError with what was
    said."""
    for folder in (root, root / "state", root / "spool"):
        folder.mkdir(mode=0o755)
    (root / "munge.key").touch(mode=0o600)
    (root / "munge.key").write_bytes(os.urandom(64))
    with socket.socket() as a, socket.socket() as b:
        ports = [s.bind(("127.0.0.1", 0)) or s.getsockname()[1] for s in (a, b)]
    host, user = socket.gethostname().split(".")[0], getpass.getuser()
    (root / "slurm.conf").write_text(CONF.format(root=root, host=host, user=user, ports=ports))
    os.environ["SLURM_CONF"] = str(root / "slurm.conf")  # steps of jobs are not told of it
    srun = f'#!/bin/sh\nSLURM_CONF={root}/slurm.conf exec {shutil.which("srun")} "$@"\n'
    (root / "srun").write_text(srun)
    (root / "srun").chmod(0o755)
    os.environ["PATH"] = f"{root}:{os.environ['PATH']}"
    files = [f"--{k}-file={root}/munge.{k}" for k in ("key", "log", "pid", "seed")]
    munged = ["munged", "--force", "--foreground", *files, f"--socket={root}/munge.socket"]
    running, until = [], time.monotonic() + 30
    try:
        for command in (munged, ["slurmctld", "-D"], ["slurmd", "-D"]):
            log = (root / f"{command[0]}.said").open("w")
            running.append(subprocess.Popen(command, stdout=log, stderr=log))
            time.sleep(1)
        while answer("sinfo", "--noheader", "--format=%T") != "idle":
            if time.monotonic() > until or any(d.poll() is not None for d in running):
                logs = ((root / f"{name}.said").read_text()[-200:] for name in DAEMONS)
                raise RuntimeError(" | ".join(logs))
            time.sleep(0.5)
        yield
        answer("scancel", "--full", "--user", user)
    finally:
        for daemon in reversed(running):
            daemon.terminate()
            daemon.wait()


def measured(count, root, results, expected, hog, cancel):
    """One run of the measuring steps, m1's first job cancelled or not; MB asked for m0 at most."""
    flow, log = ROOT / "workflow", root / "logs" / "toy-m1.log"
    command = [sys.executable, "-m", "snakemake", "--snakefile", flow / "Snakefile"]
    command += ["--directory", root, "--profile", flow / "profiles" / "slurm", "--config"]
    command += ["families=toy", "corpora=lines,more", "--"]
    command += [f"logs/done/measure/toy/{model}" for model in MODELS]
    log.unlink(missing_ok=True)
    before = {model: len(jobs(model)) for model in MODELS}
    environment = os.environ | {"RBP_RESULTS": str(results), "HOG_MB": str(hog)}
    run = subprocess.Popen(command, env=environment, stdout=PIPE, stderr=STDOUT, text=True)
    while cancel and run.poll() is None and not log.exists():
        time.sleep(0.5)
    if cancel:
        answer("scancel", jobs("m1")[-1][0])
    output = run.communicate(timeout=NEVER)[0]
    # whole at the end; what failed was sent again once, for twice the memory
    tries, fine = 1 + cancel, run.returncode == 0 and left(results) == expected
    tried = {model: jobs(model)[before[model] :] for model in MODELS}
    for rows in tried.values():
        fine &= [state == "COMPLETED" for _, state, _ in rows] == [False, True][-tries:]
        fine &= all(rows[0][2] * (1 + i) == mb for i, (*_, mb) in enumerate(rows))
    count.take(fine, f"{results.name}: {tried} {output[-600:]}")
    judge(count, root, results, expected, results.name)
    for model, rows in tried.items():
        states = ", then ".join(f"{state} at {mb} MB" for _, state, mb in rows)
        count.note += f"; {results.name} {model} {states}"
    return max((mb for *_, mb in tried["m0"]), default=0)


def cluster(root):
    """Two runs by workflow/profiles/slurm of the toy family, a job a model; what fails is sent
    again for more."""
    missing = [daemon for daemon in DAEMONS if not shutil.which(daemon)]
    missing += [] if find_spec(PLUGIN.replace("-", "_")) else [PLUGIN]
    count = Count("cluster", note=f"(skipped: no {', '.join(missing)} here; see CONTRIBUTING.md)")
    if missing:
        return count
    # what a run leaves that is no job
    command = [sys.executable, "-m", "rbplib", "measure", "--family=toy", "--corpus=lines,more"]
    environment = os.environ | {"RBP_ROOT": str(root), "OMP_NUM_THREADS": "1"}
    command += ["--quiet", f"--results={root / 'whole'}"]
    subprocess.run(command, env=environment, check=True, cwd=ROOT)
    count.note, expected = "", left(root / "whole")
    for name in ("notebooks", "published", "training", "benchmarks", "_config.yml", "_toc.yml"):
        (root / name).symlink_to(ROOT / name)
    (root / "hook").mkdir()
    (root / "hook" / "sitecustomize.py").write_text(HOG)
    os.environ["PYTHONPATH"] = f"{root / 'hook'}:{ROOT}"
    try:
        with slurm(root / "slurm"):
            most = measured(count, root, root / "undisturbed", expected, 0, False)
            # half of what is too much: the fork that measures shares it, and is counted with it
            hog = (most + 300) // 2
            measured(count, root, root / "disturbed", expected, hog, True)
    except RuntimeError as error:
        count.note = f"skipped: the daemons do not run here: {error}"
    return count


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder:
        result = cluster(workshop(Path(folder) / "root"))
    print(result)
    sys.exit(bool(result.failures))
