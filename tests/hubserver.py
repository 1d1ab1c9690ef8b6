"""A small stand-in for the hub, for tests: the parts of its protocol that its clients use.

    with HubServer() as hub:
        hub.add("models", "owner/name", folder)
        env = {"HF_ENDPOINT": hub.url, "HF_HOME": fresh_folder}

Every file is named by git's SHA-1; large ones are answered as all others, without the hub's
redirect to its store. `gated` holds repositories that are refused, `log` what was requested.
"""

import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

API = re.compile(r"/api/(models|datasets)/(.+?)(?:/(revision|tree)(?:/(.*))?)?$")
RESOLVE = re.compile(r"/(datasets/)?(.+?)/resolve/([^/]+)/(.+)$")


class Snapshot:
    """A folder as one commit: its files as the hub lists them, and a commit number of them all."""

    def __init__(self, folder):
        self.folder, self.entries = Path(folder), {}
        for path in sorted(path for path in self.folder.rglob("*") if path.is_file()):
            name, data = path.relative_to(folder).as_posix(), path.read_bytes()
            git = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
            self.entries[name] = {"type": "file", "path": name, "oid": git, "size": len(data)}
        self.sha = hashlib.sha1(json.dumps(self.entries).encode()).hexdigest()


class Answers(BaseHTTPRequestHandler):
    """Answers in a server's threads, of which nothing is printed."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **dict(headers)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer_json(self, value, status=200, headers=()):
        headers = {"Content-Type": "application/json", **dict(headers)}
        self.answer(status, json.dumps(value).encode(), headers)


class Server(ThreadingHTTPServer):
    """Of this machine alone, at `url` from its start on."""

    request_queue_size = 128

    def __init__(self, handler):
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        """A client that went away."""

    def stop(self):
        """No answer from here on, for who closes the connections that are open."""
        self.shutdown()
        self.server_close()


class Refused(Exception):
    """A status and the hub's code of an error."""


class HubServer:
    """Repositories by kind and id, each with named revisions."""

    def __init__(self):
        self.repos = {}  # (kind, id): {revision: Snapshot}
        self.gated = {}  # id: status, 401 or 403
        self.log = []  # (method, path, status)

    def add(self, kind, repo_id, folder, revision="main"):
        """A folder as a revision of a repository; returns its commit."""
        snapshot = Snapshot(folder)
        names = revision, f"refs/heads/{revision}", snapshot.sha
        self.repos.setdefault((kind, repo_id), {}).update(dict.fromkeys(names, snapshot))
        return snapshot.sha

    def find(self, kind, repo_id, revision, files=True):
        """A Snapshot; files: whether its files are asked for, or only what it is."""
        revisions = self.repos.get((kind, repo_id))
        if revisions is None:
            raise Refused(401, "RepoNotFound")  # as the hub says to those who are not logged in
        if files and repo_id in self.gated:
            raise Refused(self.gated[repo_id], "GatedRepo")
        if revision not in revisions:
            raise Refused(404, "RevisionNotFound")
        return revisions[revision]

    def requests(self, ending, method="GET"):
        return [entry for entry in self.log if entry[0] == method and entry[1].endswith(ending)]

    def __enter__(self):
        self.server = Server(type("Handler", (Handler,), {"hub": self}))
        self.url, self.stop = self.server.url, self.server.stop
        return self

    def __exit__(self, *error):
        self.stop()


def point_to(url, monkeypatch, cache=None):
    """Let huggingface_hub take this address for the hub's, and this folder for its cache."""
    constants = "huggingface_hub.constants"
    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(f"{constants}.ENDPOINT", url)
    monkeypatch.setattr(f"{constants}.HUGGINGFACE_CO_URL_TEMPLATE", template)
    if cache:
        monkeypatch.setattr(f"{constants}.HF_HUB_CACHE", str(cache))


class Handler(Answers):
    hub = None

    def answer(self, status, body=b"", headers=()):
        self.hub.log.append((self.command, self.path.split("?")[0], status))
        super().answer(status, body, headers)

    def do_GET(self):
        url = urlsplit(self.path)
        path = unquote(url.path)
        api, file = API.fullmatch(path), RESOLVE.fullmatch(path)
        try:
            if api:
                self.api(*api.groups(), "recursive=true" in url.query.lower())
            elif file:
                self.resolve(*file.groups())
            else:
                raise Refused(404, "NotFound")
        except Refused as refused:
            status, code = refused.args
            headers = {"X-Error-Code": code, "X-Error-Message": code}
            self.answer_json({"error": code}, status, headers)

    do_HEAD = do_GET

    def api(self, kind, repo_id, verb, rest, recursive):
        """What a repository is, or its files, without `recursive` those of one of its folders."""
        revision, below = rest or "main", ""
        if verb == "tree":
            revision, _, below = revision.partition("/")
        snapshot = self.hub.find(kind, repo_id, revision, verb == "tree")
        if verb != "tree":
            siblings = [{"rfilename": name} for name in snapshot.entries]
            return self.answer_json({"id": repo_id, "sha": snapshot.sha, "siblings": siblings})
        prefix = f"{below}/" if below else ""
        entries = {}
        for name in (name for name in snapshot.entries if name.startswith(prefix)):
            first, _, deeper = name[len(prefix) :].partition("/")
            entry = snapshot.entries[name]
            if deeper and not recursive:
                entry = {"type": "directory", "path": prefix + first, "oid": "0" * 40, "size": 0}
            entries[entry["path"]] = entry
        self.answer_json(list(entries.values()))

    def resolve(self, dataset, repo_id, revision, name):
        """A file, or a part of it."""
        snapshot = self.hub.find("datasets" if dataset else "models", repo_id, revision)
        if name not in snapshot.entries:
            raise Refused(404, "EntryNotFound")
        data, git = (snapshot.folder / name).read_bytes(), snapshot.entries[name]["oid"]
        headers = {"ETag": f'"{git}"', "X-Repo-Commit": snapshot.sha, "Accept-Ranges": "bytes"}
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if not match:
            return self.answer(200, data, headers)
        start, stop = int(match[1]), min(len(data), int(match[2] or len(data)) + 1)
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
        self.answer(206, data[start:stop], headers)
