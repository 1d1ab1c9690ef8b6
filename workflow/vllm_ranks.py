"""Ranks of the windows that `rbp windows` wrote, asked of a vLLM server.
It needs no package; stopped, it goes on where it was:
    vllm serve EleutherAI/pythia-12b --dtype float32  # float32 in the head is what counts
    python vllm_ranks.py windows.jsonl ranks.jsonl --model pythia-12b --weights float32
    rbp import ranks.jsonl --family pythia"""

import argparse
import json
import math
from concurrent.futures import ThreadPoolExecutor
from urllib.request import Request, urlopen

PARSER = argparse.ArgumentParser(description=__doc__.splitlines()[0])
PARSER.add_argument("windows")
PARSER.add_argument("ranks")
PARSER.add_argument("--model", required=True, help="its name in the family's file")
PARSER.add_argument("--revision", default="main", help="of the model that is served")
PARSER.add_argument("--weights", dest="weights_dtype", required=True, help="their dtype as served")
PARSER.add_argument("--head", help="dtype of the server's head (default: of its weights)")
PARSER.add_argument("--ties", default="greater+ties", help="greater+1 before vLLM's V1 engine")
PARSER.add_argument("--url", default="http://127.0.0.1:8000")


def main(windows, ranks, url, head, **model):
    def ask(path, question=None):
        data = question and json.dumps(question).encode()
        return json.load(urlopen(Request(url + path, data, {"Content-Type": "application/json"})))

    def ranked(window):
        ids = window["ids"]
        question = {"model": served["id"], "prompt": ids, "prompt_logprobs": 0, "max_tokens": 1}
        for _ in range(3):  # as often as a number is null, NaN or missing
            (answer,) = ask("/v1/completions", question)["choices"]
            rank, logprob = [None], [None]
            for token, entry in zip(ids[1:], (answer["prompt_logprobs"] or ())[1:], strict=False):
                about = {"rank": None, "logprob": None} | (entry or {}).get(str(token), {})
                if None not in about.values() and math.isfinite(about["logprob"]):
                    rank.append(about["rank"])
                    logprob.append(about["logprob"])
            if len(rank) == len(ids):
                return json.dumps({"ids": ids, "rank": rank, "logprob": logprob}) + "\n"
        raise ValueError(f"{len(ids) - len(rank)} tokens of {ids[:4]} ... without rank and logprob")

    about, *windows = map(json.loads, open(windows))  # first, what they are of
    served = ask("/v1/models")["data"][0]
    if served["max_model_len"] <= about["window"]:  # vLLM adds a token
        raise ValueError(f"its context is short: --max-model-len {about['window'] + 1}")
    about |= model | {"head_dtype": head or model["weights_dtype"], "engine": "vllm"}
    about |= {"served": served["id"]} | ask("/version")
    with open(ranks, "a+", 1, newline="") as file, ThreadPoolExecutor(16) as pool:
        file.seek(0)
        done = [line for line in file if line.endswith("\n")]  # what is there and whole
        file.truncate(sum(map(len, done)))  # as bytes, for all is ASCII
        if done and json.loads(done[0]) != about:
            PARSER.exit(2, f"{ranks} is of another model or server: choose another.\n")
        lines = pool.map(ranked, windows[len(done[1:]) :])
        # a first line comes with a first answer that can be used
        file.write("" if done else json.dumps(about) + "\n" + next(lines, ""))
        file.writelines(lines)


if __name__ == "__main__":
    try:
        main(**vars(PARSER.parse_args()))
    except Exception as error:  # servers fail in many ways
        why = f"{type(error).__name__}: {error} {getattr(error, 'read', bytes)().decode()}"
        PARSER.exit(2, f"no server, file or answer ({why}): mend that and run again.\n")
