"""Server for programs that are not written in Python: ``create_app`` makes the HTTP application, ``serve`` runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_retrievers.errors import Extra, lazy_names

if TYPE_CHECKING:
    from memory_retrievers.server.app import create_app, serve
    from memory_retrievers.server.settings import AccessToken, Right, ServerSettings

__all__ = ["AccessToken", "Right", "ServerSettings", "create_app", "serve"]

__getattr__ = lazy_names(
    __name__,
    {
        "AccessToken": "memory_retrievers.server.settings",
        "Right": "memory_retrievers.server.settings",
        "ServerSettings": "memory_retrievers.server.settings",
        "create_app": "memory_retrievers.server.app",
        "serve": "memory_retrievers.server.app",
    },
    Extra("fastapi", "fastapi", "server"),
    Extra("prometheus-client", "prometheus_client", "server"),
    Extra("starlette", "starlette", "server"),
    Extra("uvicorn", "uvicorn", "server"),
)
