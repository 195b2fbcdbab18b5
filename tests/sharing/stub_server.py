"""A Hub of one's own on loopback: as much of its HTTP interface as pushing and pulling policies needs."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "hf_of_a_test"


class Hub:
    """Repositories by name, each a list of commits: files by path. ``asked`` are all requests that came."""

    def __init__(self) -> None:
        self.commits: dict[str, list[dict[str, bytes]]] = {}
        self.private: dict[str, bool] = {}
        self.asked: list[str] = []
        self.address = ""

    def files(self, repo: str) -> dict[str, bytes]:
        return self.commits[repo][-1]

    def sha(self, repo: str) -> str:
        return hashlib.sha1(f"{repo}{len(self.commits[repo])}".encode()).hexdigest()

    def create(self, told: dict[str, Any]) -> str:
        repo = f"{told.get('organization') or 'me'}/{told['name']}"
        self.commits.setdefault(repo, [{}])
        self.private.setdefault(repo, bool(told.get("private") or told.get("visibility") == "private"))
        return repo

    def commit(self, repo: str, lines: list[dict[str, Any]]) -> None:
        files = dict(self.files(repo))
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            if line["key"] == "deletedFile":
                del files[value["path"]]
        self.commits[repo].append(files)


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def _send(self, content: Any, status: int = 200, **headers: str) -> None:
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def _missing(self, what: str) -> None:
            self._send({"error": f"no {what}"}, 404, X_Error_Code="RepoNotFound", X_Error_Message=f"no {what}")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = unquote(urlsplit(self.path).path)
            hub.asked.append(f"POST {path}")
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                self._send({"error": "who are you?"}, 401)
            elif path == "/api/repos/create":
                repo = hub.create(json.loads(body))
                self._send({"url": f"{hub.address}/{repo}", "name": repo})
            elif path == "/api/validate-yaml":
                self._send({"warnings": [], "errors": []})
            elif "/preupload/" in path:
                files = json.loads(body)["files"]
                modes = [{"path": one["path"], "uploadMode": "regular", "shouldIgnore": False} for one in files]
                self._send({"files": modes})
            elif "/commit/" in path:
                repo = path.removeprefix("/api/models/").partition("/commit/")[0]
                hub.commit(repo, [json.loads(line) for line in body.splitlines()])
                url = f"{hub.address}/{repo}/commit/{hub.sha(repo)}"
                self._send({"commitUrl": url, "commitOid": hub.sha(repo), "success": True})
            else:
                self._missing(path)

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            hub.asked.append(f"{self.command} {path}")
            parts = path.strip("/").split("/")
            is_api = parts[:2] == ["api", "models"]
            repo = "/".join(parts[2:4] if is_api else parts[:2])
            if repo not in hub.commits:
                self._missing(f"repository {repo}")
            elif is_api and "tree" not in parts:
                siblings = [{"rfilename": name, "size": len(content)} for name, content in hub.files(repo).items()]
                self._send({"id": repo, "sha": hub.sha(repo), "private": False, "tags": [], "siblings": siblings})
            elif is_api:
                listed = []
                for name, content in hub.files(repo).items():
                    listed.append({"type": "file", "path": name, "oid": "0" * 40, "size": len(content)})
                self._send(listed)
            else:
                self._file(repo, "/".join(parts[4:]))

        def _file(self, repo: str, name: str) -> None:
            content = hub.files(repo).get(name)
            if content is None:
                self._send({"error": "no such file"}, 404, X_Error_Code="EntryNotFound")
                return
            etag = f'"{hashlib.sha1(content).hexdigest()}"'
            self._send(content, ETag=etag, X_Repo_Commit=hub.sha(repo), Content_Type="application/octet-stream")

    return Handler


@contextmanager
def stub_hub() -> Iterator[Hub]:
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
