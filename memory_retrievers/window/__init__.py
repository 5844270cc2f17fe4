"""The live window: a page on this machine's own address that shows a store, searches it and changes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_retrievers.errors import Extra, lazy_names

if TYPE_CHECKING:
    from memory_retrievers.window.app import serve
    from memory_retrievers.window.state import WindowSettings

__all__ = ["WindowSettings", "serve"]

__getattr__ = lazy_names(
    __name__,
    {"WindowSettings": "memory_retrievers.window.state", "serve": "memory_retrievers.window.app"},
    Extra("starlette", "starlette", "ui"),
    Extra("uvicorn", "uvicorn", "ui"),
)
