"""A small stand-in for the hub, for tests: the parts of its protocol that huggingface_hub uses, and faults on demand.

    with HubServer() as hub:
        hub.add("models", "owner/name", folder)
        env = {"HF_ENDPOINT": hub.url, "HF_HOME": fresh_folder}

Files with the endings of LARGE answer as the hub's large files do: a redirect to another address, and the SHA-256 as
their tag; all others are named by git's SHA-1. By itself: python tests/hubserver.py models OWNER/NAME FOLDER ...

A fault is named with the end of the path that it strikes: `hub.fault("config.json", "status", times=2, code=500)`.
  the whole answer: status (code=, error=, headers=), slow (seconds=), redirect (to=), text (body=), hang_up
  a file's content: cut, corrupt, empty, short, long, drip (seconds= for all of it), no_range
  a file's headers: no_etag, length (by=)
What a repository lists is changed by `hub.extra` (names added), `hub.hidden` (names left out) and `hub.page` (entries
a page).
"""

import hashlib
import json
import re
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

EVIL = b"{}"  # the content of every file that is listed but not in the folder
LARGE = (".safetensors", ".bin", ".parquet", ".jsonl", ".gz", ".zst")
API = re.compile(r"/api/(models|datasets)/(.+?)(?:/(revision|tree|refs|paths-info)(?:/(.*))?)?$")
RESOLVE = re.compile(r"/(datasets/)?(.+?)/resolve/([^/]+)/(.+)$")
STORED = re.compile(r"/stored/(models|datasets)/(.+)/([0-9a-f]{40})/(.+)$")


class Snapshot:
    """A folder as one commit: its files, their hashes, and a commit number made of both."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.files = sorted(p.relative_to(folder).as_posix() for p in self.folder.rglob("*") if p.is_file())
        self.hashes = {name: self._hashes(name) for name in self.files}
        self.sha = hashlib.sha1(json.dumps(sorted(self.hashes.items())).encode()).hexdigest()

    def _hashes(self, name):
        data = (self.folder / name).read_bytes()
        git = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        return git, hashlib.sha256(data).hexdigest() if name.endswith(LARGE) else None, len(data)

    def entry(self, name):
        git, sha256, size = self.hashes[name]
        large = {"lfs": {"oid": sha256, "size": size, "pointerSize": 130}} if sha256 else {}
        return {"type": "file", "path": name, "oid": git, "size": size, **large}


class HubServer:
    """Repositories by kind and id, each with named revisions; faults are counters that run out."""

    def __init__(self):
        self.repos = {}
        self.gated = {}  # id: status, 401 or 403
        self.renamed = {}  # old id: new id
        self.busy = Counter()  # end of a path: how often it answers 503
        self.cut = Counter()  # end of a path: how often the line breaks after half of it
        self.corrupt = Counter()  # end of a path: how often its content comes wrong
        self.faults = []  # [end of a path, kind, how often it is still due, what else it needs, its methods]
        self.extra, self.hidden, self.page = [], [], None
        self.log = []  # (method, path, status)
        self.sent = 0  # bytes of file content
        self.tokens = []  # authorisation headers seen
        self.down = False

    def add(self, kind, repo_id, folder, revision="main"):
        snapshot = Snapshot(folder)
        self.repos.setdefault((kind, repo_id), {})[revision] = snapshot
        return snapshot.sha

    def find(self, kind, repo_id, revision):
        """(snapshot, status, error code)."""
        if repo_id in self.gated:
            return None, self.gated[repo_id], "GatedRepo"
        revisions = self.repos.get((kind, repo_id))
        if revisions is None:
            return None, 401, "RepoNotFound"  # as the hub says to those who are not logged in
        for name, snapshot in revisions.items():
            if revision in (name, f"refs/heads/{name}", snapshot.sha):
                return snapshot, 200, None
        return None, 404, "RevisionNotFound"

    def strikes(self, faults, path):
        """Whether a fault is due for this path; each is due as often as it was counted."""
        for ending, left in faults.items():
            if left > 0 and path.endswith(ending):
                faults[ending] -= 1
                return True
        return False

    def fault(self, ending, kind, times=10**9, methods=("GET", "HEAD", "POST"), **how):
        self.faults.append([ending, kind, times, how, methods])

    def heal(self):
        """No fault from here on."""
        self.faults, self.extra, self.hidden, self.page = [], [], [], None
        for faults in (self.gated, self.renamed, self.busy, self.cut, self.corrupt):
            faults.clear()

    def due(self, path, method, *kinds):
        """What a fault of these kinds needs, if one is due for this path."""
        for fault in self.faults:
            ending, kind, left, how, methods = fault
            if kind in kinds and left > 0 and method in methods and path.endswith(ending):
                fault[2] -= 1
                return {"kind": kind, **how}
        return None

    def asked(self, ending, method="GET"):
        return [entry for entry in self.log if entry[0] == method and entry[1].endswith(ending)]

    def __enter__(self):
        handler = type("Handler", (Handler,), {"hub": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.handle_error = lambda *_: None  # a client that went away
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def stop(self):
        """No network from here on: connections that are still open get no answer either."""
        self.down = True
        self.server.shutdown()
        self.server.server_close()

    def __exit__(self, *error):
        self.stop()


def point_to(url, monkeypatch):
    """Let huggingface_hub take this address for the hub's."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub = None

    def log_message(self, *args):
        pass

    def answer(self, status, body=b"", headers=()):
        self.hub.log.append((self.command, self.path.split("?")[0], status))
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **dict(headers)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer_json(self, value, status=200, headers=()):
        self.answer(status, json.dumps(value).encode(), {"Content-Type": "application/json", **dict(headers)})

    def refuse(self, status, code):
        self.answer_json({"error": code}, status, {"X-Error-Code": code, "X-Error-Message": code})

    def do_GET(self):
        if self.hub.down:
            self.close_connection = True
            return None
        length = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(length).decode()
        if token := self.headers.get("Authorization"):
            self.hub.tokens.append(token)
        url = urlsplit(self.path)
        path = unquote(url.path)
        if self.hub.strikes(self.hub.busy, path):
            return self.refuse(503, "Busy")
        if found := self.hub.due(path, self.command, "status", "slow", "redirect", "text", "hang_up"):
            if (done := self.strike(found)) is not None:
                return done
        if found := STORED.fullmatch(path):
            kind, repo_id, sha, name = found.groups()
            return self.send_file(kind, repo_id, sha, name, path)
        if found := API.fullmatch(path):
            return self.api(*found.groups(), parse_qs(url.query))
        if found := RESOLVE.fullmatch(path):
            return self.resolve(*found.groups())
        return self.refuse(404, "NotFound")

    do_HEAD = do_POST = do_GET

    def strike(self, fault):
        """Answer wrongly; None where the answer only comes late."""
        kind = fault["kind"]
        if kind == "slow":
            time.sleep(fault["seconds"])
        elif kind == "status":
            headers = {"X-Error-Code": fault["error"]} if "error" in fault else {}
            self.answer_json({"error": "no"}, fault["code"], headers | fault.get("headers", {}))
        elif kind == "redirect":
            self.answer(fault.get("code", 302), headers={"Location": fault["to"]})
        elif kind == "text":
            self.answer(200, fault["body"].encode(), {"Content-Type": "text/html"})
        elif kind == "hang_up":
            self.close_connection = True
        return None if kind == "slow" else True

    def redirect_renamed(self, repo_id):
        if new := self.hub.renamed.get(repo_id):
            self.answer(307, headers={"Location": self.path.replace(repo_id, new, 1)})
        return new

    def api(self, kind, repo_id, verb, rest, query):
        if self.redirect_renamed(repo_id):
            return None
        revision, _, below = (rest or "main").partition("/") if verb == "tree" else (rest or "main", "", "")
        snapshot, status, code = self.hub.find(kind, repo_id, revision)
        if code and not (code == "GatedRepo" and verb in (None, "revision")):
            return self.refuse(status, code)
        if code:  # what a gated repository is may be read by anyone; its files may not
            snapshot = next(iter(self.hub.repos[kind, repo_id].values()))
        if verb == "tree":
            entries, headers = self.tree(snapshot, below, query), {}
            if size := self.hub.page:
                start = int(query.get("cursor", ["0"])[0])
                here = self.path.split("?")[0]
                if start + size < len(entries):
                    following = f"{self.hub.url}{here}?recursive=true&cursor={start + size}"
                    headers["Link"] = f'<{following}>; rel="next"'
                entries = entries[start : start + size]
            return self.answer_json(entries, headers=headers)
        if verb == "paths-info":
            paths = json.loads(self.body)["paths"] if self.body[:1] == "{" else parse_qs(self.body).get("paths", [])
            return self.answer_json([snapshot.entry(p) for p in paths if p in snapshot.hashes])
        if verb == "refs":
            branches = [
                {"name": name, "ref": f"refs/heads/{name}", "targetCommit": s.sha}
                for name, s in self.hub.repos[kind, repo_id].items()
            ]
            return self.answer_json({"branches": branches, "tags": [], "converts": []})
        siblings = [{"rfilename": name} for name in self.listed(snapshot)]
        return self.answer_json(
            {"_id": "0" * 24, "id": repo_id, "modelId": repo_id, "sha": snapshot.sha, "private": False, "tags": [],
             "gated": repo_id in self.hub.gated, "disabled": False, "downloads": 0, "likes": 0, "siblings": siblings}
        )  # fmt: skip

    def listed(self, snapshot):
        return [n for n in snapshot.files if n not in self.hub.hidden] + self.hub.extra

    def entry(self, snapshot, name):
        strange = {"type": "file", "path": name, "oid": hashlib.sha1(EVIL).hexdigest(), "size": len(EVIL)}
        return snapshot.entry(name) if name in snapshot.hashes else strange

    def tree(self, snapshot, below, query):
        prefix = f"{below}/" if below else ""
        inside = [name for name in self.listed(snapshot) if name.startswith(prefix)]
        if query.get("recursive", ["false"])[0].lower() in ("true", "1"):
            return [self.entry(snapshot, name) for name in inside]
        folders = sorted({prefix + n[len(prefix) :].split("/")[0] for n in inside if "/" in n[len(prefix) :]})
        folders = [{"type": "directory", "path": f, "oid": "0" * 40, "size": 0} for f in folders]
        return folders + [self.entry(snapshot, n) for n in inside if "/" not in n[len(prefix) :]]

    def resolve(self, dataset, repo_id, revision, name):
        if self.redirect_renamed(repo_id):
            return None
        kind = "datasets" if dataset else "models"
        snapshot, status, code = self.hub.find(kind, repo_id, revision)
        if code:
            return self.refuse(status, code)
        if name in self.hub.extra:
            return self.answer(200, EVIL, {"ETag": '"evil"', "X-Repo-Commit": snapshot.sha})
        if name not in snapshot.hashes:
            return self.refuse(404, "EntryNotFound")
        git, sha256, size = snapshot.hashes[name]
        if sha256 is None:
            return self.send_file(kind, repo_id, snapshot.sha, name, self.path)
        headers = {
            "Location": f"{self.hub.url}/stored/{kind}/{repo_id}/{snapshot.sha}/{name}",
            "X-Repo-Commit": snapshot.sha,
            "X-Linked-Size": size,
            "X-Linked-ETag": f'"{sha256}"',
            "ETag": f'"{git}"',
        }
        return self.answer(302, headers=headers)

    def send_file(self, kind, repo_id, sha, name, path):
        snapshot, _, code = self.hub.find(kind, repo_id, sha)
        if code:
            return self.refuse(404, code)
        data = (snapshot.folder / name).read_bytes()
        git, sha256, _ = snapshot.hashes[name]
        if self.command == "GET" and self.hub.strikes(self.hub.corrupt, path):
            data = bytes([data[0] ^ 255]) + data[1:]
        data = self.changed(data, path)
        start, stop, status = 0, len(data), 200
        asked = None if self.hub.due(path, self.command, "no_range") else self.headers.get("Range")
        if found := re.fullmatch(r"bytes=(\d+)-(\d*)", asked or ""):
            start, stop, status = int(found[1]), min(len(data), int(found[2] or len(data) - 1) + 1), 206
            if start >= len(data):
                return self.answer(416, headers={"Content-Range": f"bytes */{len(data)}"})
        self.hub.log.append((self.command, path, status))
        self.send_response(status)
        length = self.hub.due(path, self.command, "length")
        self.send_header("Content-Length", str(stop - start + (length["by"] if length else 0)))
        if not self.hub.due(path, self.command, "no_etag"):
            self.send_header("ETag", f'"{sha256 or git}"')
        self.send_header("X-Repo-Commit", sha)
        self.send_header("Accept-Ranges", "bytes")
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")
        self.end_headers()
        if self.command == "GET":
            self.send_body(data[start:stop], path, length)
        return None

    def changed(self, data, path):
        """A file's content as a fault leaves it; its tag and what the listing says of it stay."""
        if self.command != "GET":
            return data
        found = self.hub.due(path, "GET", "corrupt", "empty", "short", "long")
        kind = found["kind"] if found else None
        middle = len(data) // 2
        return {
            "corrupt": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :] if data else data,
            "empty": b"",
            "short": data[:-9],
            "long": data + b"more",
        }.get(kind, data)

    def send_body(self, data, path, length):
        if self.hub.strikes(self.hub.cut, path) or self.hub.due(path, "GET", "cut"):
            data = data[: len(data) // 2]
            self.close_connection = True
        drip = self.hub.due(path, "GET", "drip")
        step = max(1, len(data) // 20) if drip else max(1, len(data))
        for start in range(0, len(data), step):
            self.wfile.write(data[start : start + step])
            self.hub.sent += len(data[start : start + step])
            self.wfile.flush()
            time.sleep(drip["seconds"] / 20 if drip else 0)
        if length:
            self.close_connection = True


if __name__ == "__main__":
    with HubServer() as server:
        for kind_, id_, folder_ in zip(*[iter(sys.argv[1:])] * 3, strict=True):
            server.add(kind_, id_, folder_)
        print(f"HF_ENDPOINT={server.url}", flush=True)
        threading.Event().wait()
