"""An S3 server for tests: moto on a free port, one request at a time, so that conditional writes are atomic.

    with S3Server() as server:
        server.environment("run-1")          for a client: its access key is the name by which requests are counted
        server.before("run-1", 7, act)       `act` is called when its 7th request has come, before it is carried out

A client is known by its access key, which every request names.
"""

import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final, Self

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

BUCKET: Final = "lake"
_KEY: Final = re.compile(r"Credential=([^/]+)/")
Act = Callable[[], None]


class _QuietHandler(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002  its name there
        """Suppresses the log line of each request."""


class S3Server:
    """A context manager with one empty bucket."""

    def __init__(self) -> None:
        self._app = DomainDispatcherApplication(create_backend_app)
        self._one_at_a_time = threading.Lock()
        self._acts: dict[tuple[str, int, str], Act] = {}
        self._counts: Counter[str] = Counter()
        self.requests: dict[str, list[str]] = defaultdict(list)
        """What each client has asked for: method and path."""
        self._server = make_server("127.0.0.1", 0, self._serve, threaded=True, request_handler=_QuietHandler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return int(self._server.server_port)

    def url(self, path: str, *, with_query: bool = True) -> str:
        """The URL of a folder in the bucket, with the server's address for clients whose environment lacks it."""
        query = f"?endpoint_override=127.0.0.1:{self.port}&scheme=http&region=us-east-1" if with_query else ""
        return f"s3://{BUCKET}/{path}{query}"

    @staticmethod
    def environment(name: str) -> dict[str, str]:
        """The environment that a client with this name needs."""
        return {"AWS_ACCESS_KEY_ID": name, "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true"}

    def before(self, name: str, number: int, act: Act) -> None:
        """Calls `act` when a client's request with this number (from 1) has arrived, before it is carried out."""
        self._acts[name, number, "before"] = act

    def after(self, name: str, number: int, act: Act) -> None:
        """Calls `act` when a client's request with this number has been carried out, before it is answered."""
        self._acts[name, number, "after"] = act

    def __enter__(self) -> Self:
        self._thread.start()
        self._call("PUT", f"/{BUCKET}")
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _call(self, method: str, path: str) -> None:
        import http.client  # noqa: PLC0415

        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request(
            method,
            path,
            headers={"Authorization": "AWS4-HMAC-SHA256 Credential=test/20200101/us-east-1/s3/aws4_request"},
        )
        assert connection.getresponse().status == 200
        connection.close()

    def _serve(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        found = _KEY.search(environ.get("HTTP_AUTHORIZATION", ""))
        name = found[1] if found else ""
        with self._one_at_a_time:
            self._counts[name] += 1
            number = self._counts[name]
            self.requests[name].append(
                f"{environ['REQUEST_METHOD']} {environ['RAW_URI'] if 'RAW_URI' in environ else environ['PATH_INFO']}"
            )
            self._act(name, number, "before")
            answer = list(self._app(environ, start_response))
            self._act(name, number, "after")
        return answer

    def _act(self, name: str, number: int, when: str) -> None:
        act = self._acts.pop((name, number, when), None)
        if act is not None:
            act()
