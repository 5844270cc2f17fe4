"""Access to MCP over HTTP: a token, bounded bodies, and one message of the protocol in each request."""

from __future__ import annotations

from typing import Final

from pydantic_core import from_json
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_retrievers.models import JsonObject
from memory_retrievers.models.fields import storable_json
from memory_retrievers.server.intake import BodyLimiter, noting_statuses, replaying
from memory_retrievers.server.responses import HTTPError, UTF8JSONResponse
from memory_retrievers.server.settings import AccessToken, TokenAuth, TrafficSettings

_INVALID_REQUEST: Final = -32600
_PARSE_ERROR: Final = -32700


class InvalidMessageError(HTTPError):
    """Error for a text that is no message of the protocol, as JSON-RPC tells it."""

    def __init__(self, message: str, *, code: int = _INVALID_REQUEST, id: object = None) -> None:
        super().__init__(400, "ValidationError", message)
        self.answer: JsonObject = {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}

    def response(self) -> Response:
        """The answer."""
        return UTF8JSONResponse(self.answer, status_code=self.status)


class McpEndpoint:
    """Passes requests on that carry the token, with bodies that are bounded and one message each.

    Args:
        app: What is behind it.
        settings: How much.
        token: What is asked for; None accepts every request.
    """

    def __init__(self, app: ASGIApp, *, settings: TrafficSettings, token: str | None) -> None:
        self._app = app
        self._bodies = BodyLimiter(settings)
        self._tokens = TokenAuth([] if token is None else [AccessToken(secret=token)])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        noting_send, answered = noting_statuses(send)
        try:
            await self._let_through(scope, receive, noting_send)
        except HTTPError as refusal:
            if not answered:
                await refusal.response()(scope, receive, send)

    async def _let_through(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        for name in ("host", "origin"):  # the SDK logs one that is foreign
            if not (headers.get(name, "").isascii() and headers.get(name, "").isprintable()):
                raise HTTPError(400, "BadRequest", f"the {name.title()} cannot be read: it is no address")
        if self._tokens.admit(headers.get("authorization", "").encode("latin-1")) is None:
            message = "send the bearer token of this server"
            raise HTTPError(401, "Unauthorized", message, headers={"WWW-Authenticate": "Bearer"})
        if scope["method"] != "POST":  # nothing is sent that was not asked for, and there is no session to end
            raise HTTPError(405, "MethodNotAllowed", "this address takes POST", headers={"Allow": "POST"})
        async with self._bodies.body(headers, receive) as read:
            body = storable_json((await read())["body"])
            check_message(body)
            once_more = replaying(body, receive)
            del body  # as in the limiter: who reads it keeps a copy
            await self._app(scope, once_more, send)


def check_message(body: bytes) -> None:
    """Refuse what is no single message of the protocol.

    The SDK takes a request whose id is of another type for a notification: it would say that it was accepted, and do
    nothing. Over standard input it answers nothing at all to what it cannot read.
    """
    try:
        message = from_json(body)
    except ValueError as error:
        raise InvalidMessageError(f"this is no JSON: {error}", code=_PARSE_ERROR) from error
    if not isinstance(message, dict):
        raise InvalidMessageError("send one message, a JSON object, in each request: batches are not understood")
    if not isinstance(message.get("method"), str) and message.keys() & {"result", "error"}:
        return  # an answer of the client
    id_ = message.get("id")
    if "id" in message and (isinstance(id_, bool) or not isinstance(id_, str | int)):
        raise InvalidMessageError("the id of a request must be a text or a whole number; nothing was done")
    if not isinstance(message.get("method"), str):
        raise InvalidMessageError("a message needs a method, such as tools/call", id=id_)
    if message.get("jsonrpc") != "2.0" or not isinstance(message.get("params"), dict | None):
        raise InvalidMessageError('a message has "jsonrpc": "2.0", and params are an object', id=id_)
