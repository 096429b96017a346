"""Access to a page: allowed hosts and origins, a token, the users whose jobs are shown; the headers of every answer."""

from __future__ import annotations

import hmac
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobwise.errors import InputError

LEAST_TOKEN = 16  # characters
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Guards:
    """`token`: "" allows no writing. `private`: only jobs of the viewer are shown. The viewer is `own`, or the user named by a
    proxy in the header `header` (the proxy must overwrite this header in every request)."""

    token: str = ""
    private: bool = False
    header: str = ""
    own: str = ""

    def viewer(self, request: Request) -> str | None:
        """Return the user whose jobs alone are shown; None: all are. Raises HTTPException where a proxy does not name one."""
        if not self.private:
            return None
        users = request.headers.getlist(self.header) if self.header else [self.own]
        user = users[0] if len(users) == 1 else ""
        if not user:
            raise HTTPException(403, f"whose jobs? The header {self.header} is missing, or is there twice")
        return user

    def refuses(self, request: Request) -> tuple[int, str] | None:
        """Return the status and the reason why a request to write is refused; None: it is not."""
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "same-origin")
        if (origin and origin.partition("://")[2] != request.headers.get("host")) or site not in ("same-origin", "none"):
            return 403, "asked from another site"
        if not self.token:
            return 403, "the page is read-only: it was begun without a token"
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), self.token.encode()):
            return 401, "the token is missing or wrong"
        return None


class Headed:
    """Adds HEADERS to every answer."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the app does, with HEADERS."""

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for key, value in HEADERS.items():
                    headers[key] = value
            await send(message)

        await self.app(scope, receive, headed if scope["type"] == "http" else send)


def token_of(file: str | Path) -> str:
    """Read the token in a file that its owner alone may read. Raises InputError."""
    path = Path(file)
    try:
        mode, token = path.stat().st_mode, path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or 'no text'}") from None
    credential = path.parent == Path(os.environ.get("CREDENTIALS_DIRECTORY", "/nowhere"))  # systemd lets nobody else enter
    if stat.S_IMODE(mode) & (0o007 if credential else 0o077):
        raise InputError(f"{path}: others may read it; `chmod 600 {path}`")
    if len(token) < LEAST_TOKEN or not token.isascii():
        raise InputError(f"{path}: a token has {LEAST_TOKEN} ASCII characters or more; `openssl rand -hex 24` prints one")
    return token
