"""A small stand-in for the hub, for tests: the parts of its protocol that huggingface_hub uses, and faults on demand.

    with HubServer() as hub:
        hub.add("models", "owner/name", folder)
        env = {"HF_ENDPOINT": hub.url, "HF_HOME": fresh_folder}

Files with the endings of LARGE answer as the hub's large files do: a redirect to another address, and the SHA-256 as
their tag; all others are named by git's SHA-1. By itself: python tests/hubserver.py models OWNER/NAME FOLDER ...
"""

import hashlib
import json
import re
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

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

    def asked(self, ending, method="GET"):
        return [entry for entry in self.log if entry[0] == method and entry[1].endswith(ending)]

    def __enter__(self):
        handler = type("Handler", (Handler,), {"hub": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
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
        if found := STORED.fullmatch(path):
            kind, repo_id, sha, name = found.groups()
            return self.send_file(kind, repo_id, sha, name, path)
        if found := API.fullmatch(path):
            return self.api(*found.groups(), parse_qs(url.query))
        if found := RESOLVE.fullmatch(path):
            return self.resolve(*found.groups())
        return self.refuse(404, "NotFound")

    do_HEAD = do_POST = do_GET

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
            return self.answer_json(self.tree(snapshot, below, query))
        if verb == "paths-info":
            paths = json.loads(self.body)["paths"] if self.body[:1] == "{" else parse_qs(self.body).get("paths", [])
            return self.answer_json([snapshot.entry(p) for p in paths if p in snapshot.hashes])
        if verb == "refs":
            branches = [
                {"name": name, "ref": f"refs/heads/{name}", "targetCommit": s.sha}
                for name, s in self.hub.repos[kind, repo_id].items()
            ]
            return self.answer_json({"branches": branches, "tags": [], "converts": []})
        siblings = [{"rfilename": name} for name in snapshot.files]
        return self.answer_json(
            {"_id": "0" * 24, "id": repo_id, "modelId": repo_id, "sha": snapshot.sha, "private": False, "tags": [],
             "gated": repo_id in self.hub.gated, "disabled": False, "downloads": 0, "likes": 0, "siblings": siblings}
        )  # fmt: skip

    def tree(self, snapshot, below, query):
        prefix = f"{below}/" if below else ""
        inside = [name for name in snapshot.files if name.startswith(prefix)]
        if query.get("recursive", ["false"])[0].lower() in ("true", "1"):
            return [snapshot.entry(name) for name in inside]
        folders = sorted({prefix + n[len(prefix) :].split("/")[0] for n in inside if "/" in n[len(prefix) :]})
        folders = [{"type": "directory", "path": f, "oid": "0" * 40, "size": 0} for f in folders]
        return folders + [snapshot.entry(n) for n in inside if "/" not in n[len(prefix) :]]

    def resolve(self, dataset, repo_id, revision, name):
        if self.redirect_renamed(repo_id):
            return None
        kind = "datasets" if dataset else "models"
        snapshot, status, code = self.hub.find(kind, repo_id, revision)
        if code:
            return self.refuse(status, code)
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
        git, sha256, size = snapshot.hashes[name]
        if self.command == "GET" and self.hub.strikes(self.hub.corrupt, path):
            data = bytes([data[0] ^ 255]) + data[1:]
        start, stop, status = 0, size, 200
        if found := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or ""):
            start, stop, status = int(found[1]), min(size, int(found[2] or size - 1) + 1), 206
            if start >= size:
                return self.answer(416, headers={"Content-Range": f"bytes */{size}"})
        self.hub.log.append((self.command, path, status))
        self.send_response(status)
        self.send_header("Content-Length", str(stop - start))
        self.send_header("ETag", f'"{sha256 or git}"')
        self.send_header("X-Repo-Commit", sha)
        self.send_header("Accept-Ranges", "bytes")
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
        self.end_headers()
        if self.command != "GET":
            return None
        if self.hub.strikes(self.hub.cut, path):
            stop = start + (stop - start) // 2
            self.close_connection = True
        self.wfile.write(data[start:stop])
        self.hub.sent += stop - start
        self.wfile.flush()
        return None


if __name__ == "__main__":
    with HubServer() as server:
        for kind_, id_, folder_ in zip(*[iter(sys.argv[1:])] * 3, strict=True):
            server.add(kind_, id_, folder_)
        print(f"HF_ENDPOINT={server.url}", flush=True)
        threading.Event().wait()
