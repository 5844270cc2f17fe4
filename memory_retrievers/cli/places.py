"""Where a store is, as the command line names it: a directory, or the address of a PostgreSQL database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from memory_retrievers.errors import ConfigurationError, MemoryRetrieversError, ValidationError
from memory_retrievers.storage import is_made, is_server, noted_embedder

_REST: Final = re.compile(r"\w+://([^@/]*@)?(?P<rest>.*)", re.DOTALL)
_USER: Final = re.compile(r"^(?P<before>\w+://[^@/:]*):(?P<secret>[^@/]*)@")
_PARAMETER: Final = re.compile(r"(?P<before>[?&](?:ssl)?password=)(?P<secret>[^&]*)", re.IGNORECASE)
_MASK: Final = "***"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a store is, or is to be made. As text, it shows no password.

    Attributes:
        address: The directory, or the address of the database as it was given.
    """

    address: Path | str

    @classmethod
    def named(cls, text: str | Place) -> Place:
        """What somebody has typed; the default of an option, which passes through here too, stays as it is."""
        if isinstance(text, Place):
            return text
        return cls(text if is_server(text) else Path(text))

    @property
    def name(self) -> str:
        """What it is called for short: the directory's name, or the database's."""
        if isinstance(self.address, Path):
            return self.address.resolve().name
        return urlsplit(str(self)).path.strip("/") or str(self)

    def __str__(self) -> str:
        if isinstance(self.address, Path):
            return str(self.address)
        if self._is_misread:
            return f"postgresql://{_MASK}"
        return _PARAMETER.sub(rf"\g<before>{_MASK}", _USER.sub(rf"\g<before>:{_MASK}@", self.address))

    def required_directory(self, *, otherwise: str) -> Path:
        """The directory.

        Args:
            otherwise: What to do with a database, for the message.

        Raises:
            ValidationError: It is the address of a database.
        """
        if isinstance(self.address, Path):
            return self.address
        raise ValidationError(f"this takes a directory and not the address of a database: {otherwise}")

    def require_store(self) -> None:
        """Refuse a place where no store is; looking must not make one.

        Raises:
            ConfigurationError: There is none.
        """
        with self.without_its_secret():
            if not is_made(self.address):
                raise ConfigurationError(f"there is no memory store at {self}")

    def noted_embedder(self) -> str | None:
        """The id of the embedder that the store here was filled with; None if nothing has been, or there is none."""
        with self.without_its_secret():
            return noted_embedder(self.address) if is_made(self.address) else None

    @contextmanager
    def without_its_secret(self) -> Iterator[None]:
        """Let no error tell the password, whatever the driver of the database says; whatever opens a place is inside.

        Raises:
            ValidationError: The address would be misread, so that pieces of a password might be told.
        """
        if self._is_misread:
            raise ValidationError(
                "in the address of a database, @ and / in a name or a password are written %40 and %2F"
            )
        try:
            yield
        except MemoryRetrieversError as error:
            told = str(error)
            for secret in self._secrets():
                told = told.replace(secret, _MASK)
            error.args = (told,)
            raise

    @property
    def _is_misread(self) -> bool:
        """Whether the name of a server would begin within what somebody means as a password."""
        if isinstance(self.address, Path):
            return False
        told = _REST.match(self.address)
        return told is not None and "@" in told["rest"]

    def _secrets(self) -> list[str]:
        if isinstance(self.address, Path):
            return []
        found = [each["secret"] for pattern in (_USER, _PARAMETER) for each in pattern.finditer(self.address)]
        return sorted({form for secret in found for form in (secret, unquote(secret)) if form}, key=len, reverse=True)
