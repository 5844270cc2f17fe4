"""Settings of an imported collection, as the store remembers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

import pydantic
from pydantic import BaseModel, ConfigDict

from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.models import Category, scopes
from memory_retrievers.storage.chroma_sync.collection import Collection, Where, check_where

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.ledger import SQLLedger


_NOTE: Final = "adoption"
"""The triggers of the store look into this note for ``write_through``."""


class Adoption(BaseModel):
    """Identity of an imported collection, and how its rows become memories.

    Attributes:
        collection_id: The id Chroma gave it.
        collection_name: Its name.
        scope: The scope of all memories; None if each row names its own.
        scope_key: The metadata key under which it does.
        text_key: The metadata key of the text; None takes the document.
        category: The category of all facts.
        where: Only the rows that this filter of Chroma's selects; None are all.
        write_through: Whether changes of the memories are written to the collection.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    collection_id: str
    collection_name: str
    scope: str | None
    scope_key: str | None
    text_key: str | None
    category: Category
    where: Where | None = None
    write_through: bool

    @classmethod
    def chosen(
        cls,
        collection: Collection,
        *,
        scope: str | None,
        scope_key: str | None,
        text_key: str | None,
        category: Category | str,
        where: Where | None,
        write_through: bool,
    ) -> Self:
        """Validate the settings a caller has given.

        Args:
            collection: The collection to import.
            scope: Scope of all memories; None if each row names its own.
            scope_key: Metadata key that holds the scope of each row; None if ``scope`` is given.
            text_key: Metadata key that holds the text; None takes the document.
            category: Category of all facts.
            where: Import only rows that match this filter; None imports all.
            write_through: Write changes of the memories to the collection.

        Raises:
            ConfigurationError: Not exactly one of scope and scope_key, or a key is empty.
            ValidationError: The scope is malformed, there is no such category, or Chroma does not take the filter.
            BackendError: The collection could not be read.
        """
        if (scope is None) == (scope_key is None):
            raise ConfigurationError(
                "give either scope=, for all rows, or scope_key=, the metadata key that holds the scope of each row"
            )
        if scope_key == "" or text_key == "":
            raise ConfigurationError("scope_key and text_key are metadata keys: they must not be empty")
        check_where(collection, where)
        try:
            return cls(
                collection_id=str(collection.id),
                collection_name=collection.name,
                scope=None if scope is None else scopes.parse(scope),
                scope_key=scope_key,
                text_key=text_key,
                category=Category(category),
                where=where,
                write_through=write_through,
            )
        except pydantic.ValidationError as error:
            raise ValidationError.from_pydantic(error) from error
        except ValueError as error:
            if isinstance(error, ValidationError):
                raise
            raise ValidationError(f"unknown category {category!r}; one of: {', '.join(Category)}") from error

    @classmethod
    def noted(cls, ledger: SQLLedger) -> Self | None:
        """Read the settings from the store; None if it has imported nothing."""
        note = ledger.notes().get(_NOTE)
        return None if note is None else cls.model_validate_json(note)

    def note(self, ledger: SQLLedger) -> None:
        """Write the settings to the store."""
        ledger.write_notes({_NOTE: self.model_dump_json()})

    def of(self, collection: Collection) -> Self:
        """Return the settings for a collection that replaces the imported one."""
        return self.model_copy(update={"collection_id": str(collection.id), "collection_name": collection.name})

    def refuse_other_collection(self, collection: Collection) -> None:
        """Raise an error unless it is the imported collection, which the name alone does not show.

        Raises:
            ConfigurationError: It is another one.
        """
        if self.collection_id != str(collection.id):
            raise ConfigurationError(
                f"this is not the collection that was adopted, {self.collection_name!r} with the id "
                f"{self.collection_id}: if it has taken that one's place, call sync_chroma(collection, confirm=True)"
            )

    def refuse_other(self, noted: Adoption | None) -> None:
        """Raise an error for other settings; only write-through may change.

        Raises:
            ConfigurationError: The store has adopted something else, or in another way.
        """
        if noted is None:
            return
        if noted.collection_id != self.collection_id:
            raise ConfigurationError(
                f"this store has adopted the collection {noted.collection_name!r} ({noted.collection_id}) already: "
                "give another path, one store for each collection"
            )
        if noted.model_copy(update={"write_through": self.write_through}) != self:
            raise ConfigurationError(
                f"the collection {noted.collection_name!r} was adopted with scope={noted.scope!r}, "
                f"scope_key={noted.scope_key!r}, text_key={noted.text_key!r}, category={str(noted.category)!r}, "
                f"where={noted.where!r}: give the same again, or another path"
            )
