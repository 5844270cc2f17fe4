"""What the audit has noted, read as an export reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.ledger import SQLLedger
    from memory_retrievers.models import AnyMemory
    from memory_retrievers.models.management import AuditEntry


def audit_of(ledger: SQLLedger, memory: AnyMemory) -> list[AuditEntry]:
    """The entries of a memory, oldest first."""
    with ledger.contents() as contents:
        return [each for each in contents.audit if (each.memory.scope, each.memory.id) == (memory.scope, memory.id)]
