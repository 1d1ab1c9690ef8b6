"""The authors' own ranks of GPT-2 on Wikipedia, as the family `gpt2-authors`: `make authors`.

Their repository held the rank of every token, deleted it, and keeps it in its history. This fetches
that commit to where the reader is, and takes its ranks where they give the counts of
`published/gpt2_wikipedia_counts.csv`. No licence is stated: nothing of it is committed or exported.
"""

import argparse
import json
import os
import shutil
import subprocess
from tempfile import TemporaryDirectory

import numpy as np

from paper.gpt2 import VOCABULARY
from paper.published import gpt2_counts
from paper.show.claims import NAME
from rbplib.cli import ended
from rbplib.doors import keep_family, told_ranks
from rbplib.families import InputError, held, load_family

URL = "https://github.com/ybq22/relative-based-scaling-law"
COMMIT = "6cdfd151c9f291963dfa4adfd064fb4d91347352"
BLOBS = {  # git's hash of MODEL/top1/ranks.json: [rank, position, cross-entropy] of every token
    "gpt2": "1157c0c9ef1fa77caeef852ca43c698b789fffb2",
    "gpt2-medium": "a51a3fb288df35b2c38c1d2dc2cf5a3edadbf566",
    "gpt2-large": "83de0b315cefe10143b06719075b9e0711f8372c",
    "gpt2-xl": "7087346d0d46ee96cd6dad7fb3047692116a1bc7",
}
TIES = 5  # tokens whose tie at rank k the authors' top-k may have broken the other way
RECORD = {  # of each rank table, beside its model
    "corpus": "wikipedia",
    "protocol": "paper",
    "vocab_size": VOCABULARY,
    "definition": "greater+1",
    "lacks": ["token", "ties"],
    # as the authors committed them
    "imported": {
        "was": "GPT-2",
        "exported": "2025-10-20",
        "file": f"commit {COMMIT[:7]} of its authors",
    },
    "withheld": "its authors state no licence",  # so `rbp export` refuses
}


def git(folder, *arguments):
    """What a git command in a folder prints, bytes. Raises InputError:
    the reason that git gives."""
    how = {"capture_output": True, "env": os.environ | {"GIT_TERMINAL_PROMPT": "0"}}
    run = subprocess.run(["git", "-C", folder, *arguments], **how)
    if run.returncode:
        reason = run.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise InputError(reason[0])
    return run.stdout


def fetched(url, commit, blobs):
    """{model: bytes of its ranks.json} of one commit; git names a file by a hash of what is in it,
    so these are the authors' or none.

    Raises InputError: no git, no network, no such commit, or other files in it.
    """
    if not shutil.which("git"):
        raise InputError("the authors' ranks are fetched with git: install it.")
    # git runs elsewhere: a copy given by a path from here needs its whole path
    if os.path.isdir(url):
        url = os.path.abspath(url)
    files = {}
    with TemporaryDirectory() as folder:
        try:
            git(folder, "init", "-q", "--bare")
            git(folder, "fetch", "-q", "--depth", "1", "--", url, commit)
        except InputError as error:
            message = f"commit {commit[:7]} could not be fetched from {url} ({error})"
            raise InputError(f"{message}: check the network and the address.") from None
        for model, blob in blobs.items():
            try:
                files[model] = git(folder, "cat-file", "blob", blob)
            except InputError:
                message = f"commit {commit[:7]} of {url} lacks the ranks of {model}, blob {blob}"
                raise InputError(f"{message}: another repository was given.") from None
    return files


def check_counts(model, document, rank, nats, counts):
    """Refuse ranks that do not give a model's counts of windows of N tokens
    that all rank k or better.

    The authors counted tokens among the k of highest probability, where a tie at the edge falls
    either way; the rank of a token takes it in. So each count may be off by TIES tokens, which lie
    in N windows each. Rows of `counts` are those of `published.gpt2_counts`.
    """
    mend = "they are not those that were counted."
    rows = counts[counts["model"] == model]
    for row in rows.itertuples():
        # windows lie in one document
        inside = document[row.N - 1 :] == document[: len(document) - row.N + 1]
        hit = np.lib.stride_tricks.sliding_window_view(rank <= row.k, row.N).all(axis=1)
        hits = (hit & inside).sum()
        total = inside.sum()
        if total != row.windows or abs(hits - row.hits) > TIES * row.N:
            seen = f"{hits:,} of {total:,} windows of {row.N} at k = {row.k}"
            counted = f"{row.hits:,} of {row.windows:,}"
            raise InputError(f"the ranks of {model} have {seen}, not {counted}: {mend}")
    counted = rows["cross_entropy"].iloc[0]
    if not abs(nats.mean() - counted) <= 2e-6:  # printed with six decimals
        seen = f"the cross-entropy of {model} is {nats.mean():.6f}, not {counted:.6f}"
        raise InputError(f"{seen}: its ranks are not those that were counted.")


def take(url=URL, commit=COMMIT, blobs=None, counts=None):
    """Fetch the authors' ranks and import them: path of the file of the family `gpt2-authors`.

    Their ranks are one more than the candidates scored strictly above: ties are not known.

    Args:
        url, commit: of a git repository. blobs: {model: hash of its ranks.json}. counts: data frame
            as of `published.gpt2_counts`. By default those of the paper.
    Raises:
        InputError: they cannot be had, are others, do not count as they should, or may stand in no
            rank table.
    """
    counts = gpt2_counts() if counts is None else counts
    models = {model.name: model for model in load_family(held("families", "gpt2.yml")).models}
    tables = []
    for name, data in fetched(url, commit, blobs or BLOBS).items():
        rank, position, nats = np.array(json.loads(data)).T
        rank, position = rank.astype(int), position.astype(int)
        # a document begins where positions start again
        document = np.cumsum(np.diff(position, prepend=0) <= 0)
        check_counts(name, document, rank, nats, counts)

        # what the record of a measured table would say
        record = RECORD | {"sample": {"source": url, "revision": commit}}
        record |= {"model": name, "model_id": models[name].id}
        record["nonembedding_params"] = models[name].nonembedding_params
        record["documents"] = int(document[-1]) + 1
        record["window"] = int(position.max()) + 1
        rows = {"document": document, "position": position, "token": np.zeros_like(document)}
        tables.append((told_ranks(rows, rank, -nats, record), record))
    return keep_family(NAME, {"title": "GPT-2, the authors' ranks"}, tables)


def main(arguments=None):
    """`make authors`: exit code 2 where the ranks cannot be had."""
    parser = argparse.ArgumentParser(prog="python -m paper.authors", description=take.__doc__)
    parser.add_argument("--url", default=URL, help="of the repository, or of a copy of it")
    url = parser.parse_args(arguments).url
    return ended(lambda: print(f"{take(url)}: go on with `rbp book --family {NAME}`"))


if __name__ == "__main__":
    raise SystemExit(main())
