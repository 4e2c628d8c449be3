"""ID tokens, attempts and options of logins with OpenID Connect, without a provider. What a provider sends is in test_oidc_login.py."""

import asyncio
import base64
import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Awaitable
from types import SimpleNamespace
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey

from support.certificates import Certificates
from web.accounts.oidc import attempts as attempts_module
from web.accounts.oidc import provider as provider_module
from web.accounts.oidc import requests
from web.accounts.oidc.attempts import LIFETIME_MS, Attempts
from web.accounts.oidc.id_token import UnknownKey, import_keys, read_identity
from web.accounts.oidc.identity import Identity, Roles
from web.accounts.oidc.provider import Kept, OidcProvider
from web.accounts.oidc.requests import RequestFailed, ask
from web.alerts.channels import NotDelivered, Webhook
from web.config import ConsoleConfig, is_provider_url
from web.deadline import deadline
from web.errors import ProviderFailed, Refused
from web.routes import Access

ISSUER = "https://sso.example/realm"
KEY = ECKey.generate_key("P-256", {"kid": "one", "use": "sig"})
RSA = RSAKey.generate_key(2048, {"kid": "two", "use": "sig"})
ROLES = Roles("groups", {Access.VIEWER: ["staff"], Access.OPERATOR: ["ops"], Access.ADMIN: ["platform"]})
NOW = 1_790_000_000
CLAIMS: dict[str, Any] = {
    "iss": ISSUER, "aud": "console", "sub": "4711", "exp": NOW + 300, "iat": NOW, "nonce": "n", "name": "Alice", "groups": ["ops"]
}  # fmt: skip

COMPLETE = {
    "console_oidc_issuer": ISSUER,
    "console_oidc_client_id": "console",
    "console_oidc_viewers": "staff",
}


def signed(key: Any = KEY, alg: str = "ES256", **changed: Any) -> str:
    claims = {name: value for name, value in {**CLAIMS, **changed}.items() if value is not ...}
    return jwt.encode({"alg": alg, "kid": key.kid}, claims, key, [alg])


def encode(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def read(token: str, *keys: Any) -> Identity:
    document = KeySet(list(keys or (KEY, RSA))).as_dict(private=False)
    return read_identity(token, import_keys(dict(document)), ISSUER, "console", "n", ROLES, NOW)


def test_identity_has_subject_names_and_the_highest_role() -> None:
    assert read(signed(groups=["staff", "ops"])) == Identity(ISSUER, "4711", "4711", "Alice", Access.OPERATOR)
    assert read(signed(RSA, "RS256", preferred_username="al")).login == "al"
    assert read(signed(RSA, "PS256", groups="platform")).access is Access.ADMIN
    assert read(signed(name="A\u202e\nB" + "x" * 500)).display_name == "AB" + "x" * 98


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"iss": "https://sso.example/other"}, "(iss)"),
        ({"iss": [ISSUER]}, "(iss)"),
        ({"aud": "other"}, "(aud)"),
        ({"aud": []}, "(aud)"),
        ({"aud": {"console": 1}}, "(aud)"),
        ({"aud": ["console", "other"]}, "(azp)"),
        ({"azp": "other"}, "(azp)"),
        ({"exp": NOW - 61}, "expired"),
        ({"exp": float("nan")}, "not valid"),
        ({"exp": True}, "not valid"),
        ({"iat": NOW + 3600}, "(iat)"),
        ({"nbf": NOW + 3600}, "(nbf)"),
        ({"nonce": "other"}, "(nonce)"),
        ({"nonce": ["n", "other"]}, "(nonce)"),
        ({"sub": "é"}, "(sub)"),
        ({"sub": "x" * 256}, "(sub)"),
        ({"sub": 7}, "not valid"),
        *(({name: ...}, f"missing ({name})") for name in ("iss", "aud", "sub", "exp", "iat", "nonce")),
    ],
    ids=str,
)
def test_token_with_a_wrong_claim_is_refused(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refused) as refused:
        read(signed(**changed))
    assert reason in str(refused.value)


def test_several_audiences_are_accepted_for_this_client_as_the_authorized_party() -> None:
    assert read(signed(aud=["console", "other"], azp="console")).subject == "4711"


def test_token_without_a_signature_of_the_provider_is_refused() -> None:
    stranger = ECKey.generate_key("P-256", {"kid": "one"})
    secret = OctKey.import_key(json.dumps(RSA.as_dict(private=False)), {"kid": "two"})
    tokens = [
        signed(stranger),
        signed(secret, "HS256"),
        signed()[:-4] + "AAAA",
        ".".join((encode({"alg": "none", "kid": "one"}), encode(CLAIMS), "")),
        ".".join((encode({"alg": ["ES256"], "kid": "one"}), encode(CLAIMS), "AAAA")),
        ".".join((encode({"alg": "ES256", "kid": "one", "crit": ["x"], "x": 1}), encode(CLAIMS), "AAAA")),
        "a.b.c", "", "....", "[]", "W10.W10.W10", "ImFsZyI.e30.", "é.é.é", "x" * 100_000,
        signed().split(".")[0] + "." + "WyJ" * 10_000 + ".AAAA",
    ]  # fmt: skip
    for token in tokens:
        with pytest.raises((Refused, UnknownKey)):
            read(token)
    with pytest.raises(UnknownKey):
        read(signed(ECKey.generate_key("P-256", {"kid": "three"})))


def test_token_whose_payload_is_deeply_nested_is_refused() -> None:
    from joserfc import jws  # noqa: PLC0415  bytes that jwt does not make

    for payload in (b"[" * 60_000, b"[]", b"\xff", b'{"exp": ' + b"9" * 5_000 + b"}"):
        with pytest.raises(Refused):
            read(jws.serialize_compact({"alg": "ES256", "kid": "one"}, payload, KEY, ["ES256"]))


@pytest.mark.parametrize(
    "listed", [None, "x", {}, [1, None, {}], [{"kty": "RSA", "n": 1}], [{"kty": ["RSA"]}], [{"kty": "oct", "k": "AA"}]]
)
def test_malformed_keys_are_left_out(listed: Any, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UnknownKey):
        read_identity(signed(), import_keys({"keys": listed}), ISSUER, "console", "n", ROLES, NOW)
    assert ("key of the OpenID provider skipped kty=RSA" in caplog.text) is (listed == [{"kty": "RSA", "n": 1}])


@pytest.mark.parametrize(
    ("claims", "access"),
    [
        ({}, Access.ANYONE),
        ({"roles": ["viewer", 7, None, {"admin": 1}]}, Access.VIEWER),
        ({"roles": {"admin": True}}, Access.ANYONE),
        ({"roles": True}, Access.ANYONE),
        ({"roles": "viewer admin"}, Access.ANYONE),
        ({"roles": ["Admin"]}, Access.ANYONE),
        ({"roles": ["admin", "viewer"]}, Access.ADMIN),
    ],
)
def test_role_is_the_highest_that_a_value_names_exactly(claims: dict[str, Any], access: Access) -> None:
    assert Roles("roles", {Access.VIEWER: ["viewer"], Access.ADMIN: ["admin"]}).access(claims) is access


def test_claim_may_be_within_another_or_have_a_url_as_its_name() -> None:
    values = {Access.ADMIN: ["a"]}
    assert Roles("realm_access.roles", values).access({"realm_access": {"roles": ["a"]}}) is Access.ADMIN
    assert Roles("https://x.example/roles", values).access({"https://x.example/roles": "a"}) is Access.ADMIN
    assert Roles("realm_access.roles", values).access({"realm_access": ["a"]}) is Access.ANYONE


# ---- attempts


def test_attempt_is_finished_once_by_the_browser_that_began_it() -> None:
    attempts = Attempts(lambda: 0)
    mine, other = attempts.begin("/topics?filter=é"), attempts.begin("/")
    assert len({mine.state, mine.nonce, mine.verifier, other.state, other.nonce, other.verifier}) == 6
    for cookie, state in ((other.cookie, mine.state), ("", mine.state), (mine.cookie, ""), (mine.cookie, "é"),
                          ("é.é.é", mine.state), ("a.b.c", "d"), (mine.cookie + "x", mine.state)):  # fmt: skip
        with pytest.raises(Refused):
            attempts.find(cookie, state)
    assert attempts.find(mine.cookie, mine.state) == mine
    attempts.finish(mine)
    with pytest.raises(Refused, match="already used"):
        attempts.finish(attempts.find(mine.cookie, mine.state))
    attempts.finish(attempts.find(other.cookie, other.state))


def test_page_that_was_asked_for_is_known_after_a_failure_to_the_browser_that_began_the_attempt() -> None:
    now = [0]
    attempts = Attempts(lambda: now[0])
    mine, other = attempts.begin("/topics?filter=é"), attempts.begin("/users")
    attempts.finish(mine)
    now[0] = LIFETIME_MS + 1
    assert attempts.find(mine.cookie, mine.state).then == "/topics?filter=é"
    for cookie, state in ((mine.cookie, other.state), ("", mine.state), (mine.cookie, ""), ("a.b.Lw", "c")):
        with pytest.raises(Refused):
            attempts.find(cookie, state)


def test_attempt_ends_after_ten_minutes_and_with_the_process() -> None:
    now = [0]
    attempts = Attempts(lambda: now[0])
    attempt = attempts.begin("/")
    with pytest.raises(Refused, match="another login"):
        Attempts(lambda: 0).find(attempt.cookie, attempt.state)
    now[0] = LIFETIME_MS + 1
    with pytest.raises(Refused, match="too long"):
        attempts.finish(attempts.find(attempt.cookie, attempt.state))


def test_number_of_attempts_that_are_remembered_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts_module, "_MOST_USED", 2)
    attempts = Attempts(lambda: 0)
    first, *others = [attempts.begin("/") for _ in range(3)]
    for attempt in (first, *others):
        attempts.finish(attempt)
    attempts.finish(first)  # the provider refuses its code
    with pytest.raises(Refused, match="already used"):
        attempts.finish(others[1])


def test_address_that_is_too_long_for_a_cookie_is_dropped() -> None:
    attempts = Attempts(lambda: 0)
    attempt = attempts.begin("/topics?filter=" + "x" * 5_000)
    assert attempts.find(attempt.cookie, attempt.state).then == "/"
    assert len(attempt.cookie) < 200


# ---- requests


def resolve(host: str, port: int, **_: Any) -> list[Any]:
    """A resolver that leaves names as they are."""
    return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port))]


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://[::1]/token", ("::1", 443)),
        ("http://[::1]/token", ("::1", 80)),
        ("http://[::1]:8081/token", ("::1", 8081)),
        ("https://sso.example/token", ("sso.example", 443)),
    ],
)
def test_request_goes_to_the_host_and_port_of_its_url(
    monkeypatch: pytest.MonkeyPatch, url: str, address: tuple[str, int]
) -> None:
    asked: list[tuple[str, int]] = []

    def refuse(wanted: tuple[str, int], *_: Any) -> None:
        asked.append(wanted)
        raise ConnectionRefusedError("refused by the test")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket, "create_connection", refuse)
    with pytest.raises(RequestFailed, match="refused by the test"):
        ask(url, ISSUER)
    with pytest.raises(NotDelivered, match="refused by the test"):
        Webhook(name="w", url=url).send([])
    assert asked == [address, address]


def test_answer_that_arrives_byte_by_byte_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "DEADLINE_S", 0.5)
    given_up = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(4_096)
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
            for _ in range(500):
                connection.sendall(b" ")
                if given_up.wait(0.01):
                    return
            connection.sendall(b"{}")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(RequestFailed, match="not complete in time"):
            ask(f"{url}/token", url)
        given_up.set()
        thread.join()


def test_connection_that_is_made_after_the_deadline_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.deadline._AGAIN_S", 0.01)
    ours, theirs = socket.socketpair()
    ours.settimeout(30)
    asked: list[bool] = []

    def connected() -> socket.socket | None:
        asked.append(True)
        return ours if len(asked) > 1 else None

    with ours, theirs, pytest.raises(TimeoutError), deadline(0.0, connected):
        assert ours.recv(1) == b""
    assert len(asked) >= 2


def test_answer_that_the_deadline_has_cut_is_not_taken_as_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a length, the end of the connection is the end of the answer."""
    monkeypatch.setattr(requests, "DEADLINE_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4_096)
                connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n{}")
                connection.recv(1)  # until it is closed

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(RequestFailed, match="not complete in time"):
            ask(f"{url}/token", url)
        thread.join()


def test_name_with_many_addresses_takes_no_longer_than_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    now, timeouts = [0.0], []

    def time_out(_: Any, timeout: float) -> None:
        timeouts.append(timeout)
        now[0] += timeout
        raise TimeoutError("timed out")

    monkeypatch.setattr(requests, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(socket, "create_connection", time_out)
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda *_, **__: [(2, 1, 0, "", (f"192.0.2.{number}", 443)) for number in range(16)]
    )
    with pytest.raises(RequestFailed, match="timed out"):
        ask("https://sso.example/token", ISSUER)
    assert sum(timeouts) == requests.DEADLINE_S


class Connected(socket.socket):
    """A connection whose other end has an address."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.address = address

    def getpeername(self) -> tuple[str, int]:
        return self.address, 443


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "127.8.9.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fe80::1%1", "0.0.0.0"]
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_name_from_a_document_cannot_lead_to_loopback_or_link_local_addresses(
    monkeypatch: pytest.MonkeyPatch, scheme: str, address: str
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket, "create_connection", lambda *_: Connected(address))
    with pytest.raises(RequestFailed, match="is not allowed: it is loopback"):
        ask(f"{scheme}://metadata.example/token", ISSUER)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize(
    ("server", "trust", "refusal"),
    [
        ("server", "ca", ""),
        ("expired-server", "ca", "certificate verify failed"),
        ("server", "stranger", "certificate verify failed"),
        ("known", "ca", "certificate verify failed"),
    ],
)
def test_certificate_of_the_provider_is_verified(
    monkeypatch: pytest.MonkeyPatch, certificates: Certificates, server: str, trust: str, refusal: str
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.path(f"{trust}.pem")))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.path(f"{server}.pem"), certificates.path(f"{server}.key"))
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as held:
                received.append(held.recv(4_096))
                held.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"a": 1}\n')

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        try:
            if refusal:
                with pytest.raises(RequestFailed, match=refusal):
                    ask(f"{url}/keys", url)
            else:
                assert ask(f"{url}/keys", url) == (200, {"a": 1})
        finally:
            thread.join()
    assert bool(received) is not bool(refusal)


def test_handshake_is_cut_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "DEADLINE_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"  # it accepts, and never answers
        with pytest.raises(RequestFailed, match="not complete in time"):
            ask(f"{url}/keys", url)


def test_nothing_is_sent_to_a_service_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(2, 1, 0, "", ("127.0.0.1", port))])
        with pytest.raises(RequestFailed, match=r"its address 127\.0\.0\.1"):
            ask(f"http://internal.example:{port}/token", ISSUER, {"code": "x"}, "Basic x")
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(1) == b""


# ---- the provider's documents

DOCUMENT: dict[str, Any] = {
    "issuer": ISSUER,
    "authorization_endpoint": "https://sso.example/authorize",
    "token_endpoint": "https://sso.example/token",
    "jwks_uri": "https://sso.example/keys",
}


def begin(provider: OidcProvider) -> Awaitable[str]:
    return provider.login_url(Attempts(lambda: 0).begin("/"), "https://console.example/login/oidc/callback")


@pytest.mark.parametrize("endpoint", ["authorization_endpoint", "token_endpoint", "jwks_uri"])
@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("https://login.example/x", True),
        ("https://sso.example:8443/x", True),
        ("http://sso.example/x", False),
        ("https://10.0.0.7/x", False),
        ("https://169.254.169.254/latest", False),
        ("https://[fd00::7]/x", False),
        ("https://[::ffff:127.0.0.1]/x", False),
        ("https://localhost/x", False),
        ("https://127.0.0.1:9876/x", False),
    ],
)
def test_endpoint_has_a_host_name_and_is_as_safe_as_the_issuer(
    monkeypatch: pytest.MonkeyPatch, endpoint: str, url: str, is_allowed: bool
) -> None:
    monkeypatch.setattr(provider_module, "ask", lambda *_: (200, {**DOCUMENT, endpoint: url}))

    async def url_of_login() -> str:
        provider = OidcProvider(ConsoleConfig(**COMPLETE))  # type: ignore[arg-type]
        try:
            return await begin(provider)
        finally:
            provider.close()

    if is_allowed:
        assert asyncio.run(url_of_login()).startswith("https://")
    else:
        with pytest.raises(ProviderFailed):
            asyncio.run(url_of_login())


def test_number_of_steps_that_wait_for_the_provider_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    is_released = threading.Event()

    def answer(*_: Any) -> tuple[int, dict[str, Any]]:
        assert is_released.wait(30)
        return 200, DOCUMENT

    monkeypatch.setattr(provider_module, "ask", answer)

    async def steps() -> None:
        provider = OidcProvider(ConsoleConfig(**COMPLETE))  # type: ignore[arg-type]
        waiting = [asyncio.ensure_future(begin(provider)) for _ in range(provider_module.MOST_AT_ONCE)]
        await asyncio.sleep(0)
        try:
            with pytest.raises(ProviderFailed, match="too many users are logging in at once"):
                await begin(provider)
        finally:
            is_released.set()
        assert len(set(await asyncio.gather(*waiting))) == len(waiting)
        await begin(provider)
        provider.close()

    asyncio.run(steps())


class Document:
    """A document that is read in a time, or cannot be read; and its clock, in seconds."""

    def __init__(self) -> None:
        self.reads, self.now_s, self.takes_s = 0, 0.0, 0.0
        self.failure = ""
        self.logged: list[str] = []

    async def read(self) -> int:
        self.reads += 1
        await asyncio.sleep(0)
        self.now_s += self.takes_s
        if self.failure:
            raise RequestFailed(self.failure)
        return self.reads

    def kept(self) -> Kept[int]:
        return Kept(self.read, self.logged.append, lambda: self.now_s)


def test_those_who_wait_for_a_document_share_one_request_also_if_it_fails() -> None:
    async def get() -> None:
        document = Document()
        document.failure, document.takes_s = "no answer", provider_module.RETRY_S + 1
        kept = document.kept()
        answers = await asyncio.gather(kept.get(), kept.get(), kept.get(), return_exceptions=True)
        assert [str(answer) for answer in answers] == ["no answer"] * 3
        assert document.reads == 1
        document.failure = ""
        document.now_s += provider_module.RETRY_S + 1
        assert await asyncio.gather(kept.get(), kept.get()) == [2, 2]

    asyncio.run(get())


def test_document_is_used_for_a_while_if_it_cannot_be_read_again() -> None:
    async def get() -> None:
        document = Document()
        kept = document.kept()
        assert await kept.get() == 1
        document.failure = "no answer"
        document.now_s = provider_module.KEPT_S + 1
        assert await kept.get() == 1
        assert await kept.get() == 1
        assert (document.reads, document.logged) == (2, ["no answer"])
        with pytest.raises(RequestFailed):  # another one is needed
            await kept.get(again=True)
        document.now_s = provider_module.LONGEST_KEPT_S + 1
        with pytest.raises(RequestFailed):
            await kept.get()
        document.failure = ""
        document.now_s += provider_module.RETRY_S + 1
        assert await kept.get() == document.reads

    asyncio.run(get())


def test_document_is_read_again_for_a_missing_key_unless_it_was_read_a_moment_ago() -> None:
    async def get() -> None:
        document = Document()
        kept = document.kept()
        assert await kept.get() == await kept.get(again=True) == 1
        document.now_s = provider_module.RETRY_S + 1
        assert await kept.get() == 1
        assert await kept.get(again=True) == await kept.get(again=True) == 2

    asyncio.run(get())


# ---- options


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("https://sso.example/realm", True),
        ("http://127.0.0.1:8081", True),
        ("http://localhost/x", True),
        ("http://[::1]:80/", True),
        ("http://sso.example", False),
        ("ftp://sso.example", False),
        ("https://user@sso.example", False),
        ("https://sso.example/#a", False),
        ("https://sso.example:x", False),
        ("https://", False),
        ("https://sso.example/\r\nX: y", False),
        ("https://sso.example\\@evil.example", False),
        ("//sso.example", False),
        ("https://" + "x" * 2_000, False),
    ],
)
def test_provider_needs_https_except_on_this_machine(url: str, is_allowed: bool) -> None:
    assert is_provider_url(url) is is_allowed


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"console_oidc_issuer": "http://sso.example"}, "expected an https URL"),
        ({"console_oidc_issuer": ISSUER + "?a=b"}, "expected an https URL"),
        ({"console_oidc_client_id": ""}, "requires consoleOidcClientId"),
        ({"console_oidc_viewers": " ; "}, "nobody could log in"),
        ({"console_oidc_scopes": "profile"}, "including openid"),
        ({"console_oidc_client_secret_file": "secret"}, "an absolute path"),
        ({"console_oidc_role_claim": ""}, "requires consoleOidcRoleClaim"),
    ],
)
def test_incomplete_options_are_refused(changed: dict[str, str], problem: str) -> None:
    assert ConsoleConfig(**COMPLETE).oidc_name == "sso.example"  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=problem):
        ConsoleConfig(**{**COMPLETE, **changed})  # type: ignore[arg-type]
