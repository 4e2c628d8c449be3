"""ID tokens, attempts and options of logins with OpenID Connect, without a provider. What a provider sends is in test_oidc_login.py."""

import base64
import contextlib
import json
import socket
import threading
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey

from web.accounts.oidc import requests
from web.accounts.oidc.attempts import LIFETIME_MS, Attempts
from web.accounts.oidc.id_token import UnknownKey, import_keys, read_identity
from web.accounts.oidc.identity import Identity, Roles
from web.accounts.oidc.requests import RequestFailed, ask
from web.alerts.channels import NotDelivered, Webhook
from web.config import ConsoleConfig, is_provider_url
from web.deadline import deadline
from web.errors import Refused
from web.routes import Access

ISSUER = "https://sso.example/realm"
KEY = ECKey.generate_key("P-256", {"kid": "one", "use": "sig"})
RSA = RSAKey.generate_key(2048, {"kid": "two", "use": "sig"})
ROLES = Roles("groups", {Access.VIEWER: ["staff"], Access.OPERATOR: ["ops"], Access.ADMIN: ["platform"]})
NOW = 1_790_000_000
CLAIMS: dict[str, Any] = {
    "iss": ISSUER, "aud": "console", "sub": "4711", "exp": NOW + 300, "iat": NOW, "nonce": "n", "name": "Alice", "groups": ["ops"]
}  # fmt: skip


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
def test_malformed_keys_are_left_out(listed: Any) -> None:
    with pytest.raises(UnknownKey):
        read_identity(signed(), import_keys({"keys": listed}), ISSUER, "console", "n", ROLES, NOW)


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
            attempts.finish(cookie, state)
    assert attempts.finish(mine.cookie, mine.state) == mine
    with pytest.raises(Refused, match="already used"):
        attempts.finish(mine.cookie, mine.state)
    assert attempts.finish(other.cookie, other.state) == other


def test_page_that_was_asked_for_is_known_after_a_failure_to_the_browser_that_began_the_attempt() -> None:
    now = [0]
    attempts = Attempts(lambda: now[0])
    mine, other = attempts.begin("/topics?filter=é"), attempts.begin("/users")
    attempts.finish(mine.cookie, mine.state)
    now[0] = LIFETIME_MS + 1
    assert attempts.then(mine.cookie, mine.state) == "/topics?filter=é"
    for cookie, state in ((mine.cookie, other.state), ("", mine.state), (mine.cookie, ""), ("a.b.Lw", "c")):
        assert attempts.then(cookie, state) == "/"


def test_attempt_ends_after_ten_minutes_and_with_the_process() -> None:
    now = [0]
    attempts = Attempts(lambda: now[0])
    attempt = attempts.begin("/")
    with pytest.raises(Refused, match="another login"):
        Attempts(lambda: 0).finish(attempt.cookie, attempt.state)
    now[0] = LIFETIME_MS + 1
    with pytest.raises(Refused, match="too long"):
        attempts.finish(attempt.cookie, attempt.state)


def test_address_that_is_too_long_for_a_cookie_is_dropped() -> None:
    attempts = Attempts(lambda: 0)
    attempt = attempts.begin("/topics?filter=" + "x" * 5_000)
    assert attempts.finish(attempt.cookie, attempt.state).then == "/"
    assert len(attempt.cookie) < 200


# ---- requests


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

    monkeypatch.setattr(socket, "create_connection", refuse)
    with pytest.raises(RequestFailed, match="refused by the test"):
        ask(url, ISSUER)
    with pytest.raises(NotDelivered, match="refused by the test"):
        Webhook(name="w", url=url).send([])
    assert asked == [address, address]


def test_answer_that_arrives_byte_by_byte_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "DEADLINE_S", 0.1)
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
        with pytest.raises(RequestFailed):
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

    with ours, theirs, deadline(0.0, connected):
        assert ours.recv(1) == b""
    assert len(asked) >= 2


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


COMPLETE = {
    "console_oidc_issuer": ISSUER,
    "console_oidc_client_id": "console",
    "console_oidc_viewers": "staff",
}


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"console_oidc_issuer": "http://sso.example"}, "expected an https URL"),
        ({"console_oidc_issuer": ISSUER + "?a=b"}, "expected an https URL"),
        ({"console_oidc_client_id": ""}, "requires consoleOidcClientId"),
        ({"console_oidc_viewers": " ; "}, "nobody could log in"),
        ({"console_oidc_scopes": "profile"}, "with openid"),
        ({"console_oidc_client_secret_file": "secret"}, "an absolute path"),
        ({"console_oidc_role_claim": ""}, "requires consoleOidcRoleClaim"),
    ],
)
def test_incomplete_options_are_refused(changed: dict[str, str], problem: str) -> None:
    assert ConsoleConfig(**COMPLETE).oidc_name == "sso.example"  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=problem):
        ConsoleConfig(**{**COMPLETE, **changed})  # type: ignore[arg-type]
