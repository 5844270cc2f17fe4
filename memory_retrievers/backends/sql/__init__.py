"""The ledger in SQL, shared by all databases; what differs between them is in a dialect.

The columns and indexes that a table has in every database are here; keys and references differ. Like a released
migration, what is here is never edited: a new column is a new migration.
"""

from __future__ import annotations

import re
from typing import Final

_TYPE: Final = re.compile(r"\b(?:BLOB|BOOLEAN|INTEGER|REAL|TEXT)\b")

_COLUMNS: Final = {
    # What ranking reads comes first, and long texts last.
    "memories": """
        id TEXT NOT NULL, kind TEXT NOT NULL CHECK (kind IN ('episodic', 'semantic')), category TEXT,
        created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, expires_at INTEGER,
        stability REAL, difficulty REAL, last_reviewed_at INTEGER,
        start_at INTEGER, end_at INTEGER, valid_at INTEGER, invalid_at INTEGER, consolidated_at INTEGER, surprise REAL,
        tier TEXT NOT NULL, content_type TEXT NOT NULL, agent_id TEXT, origin TEXT NOT NULL,
        importance REAL NOT NULL, importance_pinned BOOLEAN NOT NULL,
        access_count INTEGER NOT NULL, last_accessed_at INTEGER,
        tags TEXT NOT NULL, keywords TEXT, source_episodic_ids TEXT, consolidated_from TEXT NOT NULL,
        title TEXT, content TEXT NOT NULL, metadata TEXT NOT NULL""",
    # The passage's length and its memory stand in each posting, so that scoring reads one index range per term.
    "postings": """
        scope_id INTEGER NOT NULL, kind TEXT NOT NULL, term TEXT NOT NULL, passage INTEGER NOT NULL,
        memory INTEGER NOT NULL, frequency INTEGER NOT NULL, length INTEGER NOT NULL,
        PRIMARY KEY (scope_id, kind, term, passage)""",
    "keyword_statistics": """
        scope_id INTEGER NOT NULL, kind TEXT NOT NULL, passages INTEGER NOT NULL, terms INTEGER NOT NULL,
        PRIMARY KEY (scope_id, kind)""",
    # Messages wait here, in the order they came, until they are part of an episode.
    "queued_messages": """
        id TEXT NOT NULL, role TEXT NOT NULL, content TEXT NOT NULL, timestamp INTEGER NOT NULL""",
    # Who works on a queue holds its fence: a token, the number of messages it covers, and since when.
    "queues": "fence TEXT, fenced_messages INTEGER, fenced_at INTEGER",
    # How far a vector index outside the database has been fed: every passage up to the mark, but for what the outbox
    # lists. What lies between the mark and `claimed` is on its way there. Without a generation there is no such index.
    "projection": """
        id INTEGER PRIMARY KEY CHECK (id = 1), generation TEXT, mark INTEGER NOT NULL, claimed INTEGER NOT NULL""",
    # A conversation by which retrievals are to be judged: the pending reviews that name the job.
    "review_jobs": "reviewed_at INTEGER NOT NULL, conversation TEXT NOT NULL",
    "pending_reviews": "query TEXT NOT NULL, memories TEXT NOT NULL, created_at INTEGER NOT NULL",
    # One of every pair of memories, whichever of the two it goes out from.
    "associations": """
        type TEXT NOT NULL, strength REAL NOT NULL, auto_generated BOOLEAN NOT NULL, created_at INTEGER NOT NULL,
        CHECK (source != target)""",
    # What became of a memory's importance, and when it was handed out.
    "audit": "type TEXT NOT NULL, at INTEGER NOT NULL, old REAL NOT NULL, new REAL NOT NULL, reason TEXT",
    # The characters of a scope's story, in the order in which it first named them.
    "characters": "name TEXT NOT NULL, known_events TEXT NOT NULL, state TEXT NOT NULL",
    # What a fact said before it was changed, and until when: read by history, and by searches of a moment in the past.
    "fact_versions": """
        fact TEXT NOT NULL, category TEXT NOT NULL, keywords TEXT NOT NULL,
        valid_at INTEGER NOT NULL, invalid_at INTEGER NOT NULL, vector BLOB, new_vector BLOB""",
    # What happened to a memory, and by whom, without a word of it; without a memory: that one was forgotten.
    "events": """
        memory INTEGER, type TEXT NOT NULL, at INTEGER NOT NULL, channel TEXT NOT NULL, actor TEXT,
        fields TEXT NOT NULL""",
}


def columns_in(types: dict[str, str]) -> dict[str, str]:
    """The columns, by table, for a database whose types have other names; those that are not given stay."""
    return {
        table: _TYPE.sub(lambda name: types.get(name[0], name[0]), columns.strip())
        for table, columns in _COLUMNS.items()
    }


ITEM_INDEXES: Final = (
    # The items of a LangGraph store as they are browsed: of each scope those that were put last.
    """CREATE INDEX items_by_time ON memories (scope_id, updated_at DESC, id)
        WHERE origin = 'store' AND kind = 'semantic' AND invalid_at IS NULL""",
    # What a model should always know of a scope, however many other facts it holds.
    """CREATE INDEX facts_of_profile ON memories (scope_id, category, created_at DESC, id)
        WHERE kind = 'semantic' AND invalid_at IS NULL AND category IN ('guideline', 'identity', 'preference')""",
    """CREATE INDEX pinned_facts ON memories (scope_id, created_at DESC, id)
        WHERE kind = 'semantic' AND importance_pinned AND importance >= 0.5""",
)
