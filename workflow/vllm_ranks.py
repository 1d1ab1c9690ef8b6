"""Ranks of the windows that `rbp windows` wrote, asked of a vLLM server; it needs no package.

    vllm serve EleutherAI/pythia-12b --dtype float32  # float32 in the head is what counts
    python vllm_ranks.py windows.jsonl ranks.jsonl --model pythia-12b --weights float32
    rbp import ranks.jsonl --family pythia

Stopped, it goes on where it was. Made after vLLM's documentation; no vLLM was run here."""

import argparse
import json
from concurrent.futures import ThreadPoolExecutor
from urllib.request import Request, urlopen

PARSER = argparse.ArgumentParser(description=__doc__.splitlines()[0])
PARSER.add_argument("windows")
PARSER.add_argument("ranks")
PARSER.add_argument("--model", required=True, help="its name in the family's file")
PARSER.add_argument("--revision", default="main", help="of the model that is served")
PARSER.add_argument("--weights", required=True, help="dtype of the server's weights")
PARSER.add_argument("--head", help="dtype of the server's head (default: of its weights)")
PARSER.add_argument("--ties", default="greater+ties", help="greater+1 before vLLM's V1 engine")
PARSER.add_argument("--url", default="http://127.0.0.1:8000")


def main(given):
    def ask(path, question=None):
        data, kind = question and json.dumps(question), {"Content-Type": "application/json"}
        return json.load(urlopen(Request(given.url + path, data and data.encode(), kind)))

    def ranked(window):
        question = {"model": about["served"], "prompt": window["ids"], "prompt_logprobs": 0}
        answer = ask("/v1/completions", question | {"max_tokens": 1})
        pairs = zip(answer["choices"][0]["prompt_logprobs"][1:], window["ids"][1:], strict=True)
        true, line = [entry[str(token)] for entry, token in pairs], {"ids": window["ids"]}
        for name in ("rank", "logprob"):
            line[name] = [None, *(entry[name] for entry in true)]
        return json.dumps(line) + "\n"

    about, *windows = map(json.loads, open(given.windows))  # first, what they are of
    about |= {"model": given.model, "revision": given.revision, "ties": given.ties}
    about |= {"weights_dtype": given.weights, "head_dtype": given.head or given.weights}
    about |= {"engine": "vllm", "served": ask("/v1/models")["data"][0]["id"]} | ask("/version")
    with open(given.ranks, "a+", 1, newline="") as file, ThreadPoolExecutor(16) as pool:
        file.seek(0)
        done = [line for line in file if line.endswith("\n")]  # what is there and whole
        file.truncate(sum(map(len, done)))  # as bytes, for all is ASCII
        if done and json.loads(done[0]) != about:
            PARSER.exit(2, f"{given.ranks} is of another model or server: choose another.\n")
        lines = pool.map(ranked, windows[len(done[1:]) :])
        # a first line comes with a first answer that can be used
        file.write("" if done else json.dumps(about) + "\n" + next(lines, ""))
        file.writelines(lines)


if __name__ == "__main__":
    try:
        main(PARSER.parse_args())
    except Exception as error:  # servers fail in many ways
        why = f"{type(error).__name__}: {error} {getattr(error, 'read', bytes)().decode()}"
        PARSER.exit(2, f"no server, file or answer ({why}): mend that and run again.\n")
