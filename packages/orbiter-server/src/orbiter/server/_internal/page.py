"""The web page: a few files of this package, served as they are."""

from hashlib import sha256
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
HEADERS = {
    # nothing from elsewhere, nothing inline, and no text that becomes markup; images of the page's
    # own making are those that somebody sends or has sent
    "Content-Security-Policy": "; ".join([
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
        "img-src 'self' blob:", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
        "require-trusted-types-for 'script'", "trusted-types 'none'",
    ]),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # the browser asks each time and is told "unchanged": an upgrade shows at once
    "Cache-Control": "no-cache",
}  # fmt: skip


def page_routes() -> list[Route]:
    """Return the routes of the page and its files."""
    root = files("orbiter.server") / "page"
    contents = {
        file.name: file.read_bytes() for file in root.iterdir() if _ending(file.name) in TYPES
    }

    async def index(request: Request) -> Response:
        return answer(request, "index.html")

    async def asset(request: Request) -> Response:
        return answer(request, request.path_params["name"])

    def answer(request: Request, name: str) -> Response:
        if name not in contents:
            return Response("there is no such file", 404, HEADERS, "text/plain")
        content = contents[name]
        headers = HEADERS | {"ETag": f'"{sha256(content).hexdigest()[:32]}"'}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=TYPES[_ending(name)])

    return [
        Route("/", index, methods=["GET"]),
        Route("/page/{name}", asset, methods=["GET"]),
    ]


def _ending(name: str) -> str:
    return name.rpartition(".")[2]
