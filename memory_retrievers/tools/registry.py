"""The table of all tools: name → arguments model → function → description. Adapters are generated from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from memory_retrievers.errors import NotFoundError
from memory_retrievers.tools import (
    associating,
    batch_storing,
    consolidating,
    listing,
    managing,
    moving,
    recall,
    records,
    scene,
    scoping,
    scores,
    searching,
    sessions,
    storing,
    syncing,
    updating,
)
from memory_retrievers.tools.spec import ToolSpec

AnyToolSpec: TypeAlias = ToolSpec[Any]
"""A tool, whatever its arguments."""

_RECALL: tuple[AnyToolSpec, ...] = (
    ToolSpec(
        name="retrieve_memory",
        arguments=recall.RetrieveMemoryArguments,
        function=recall.retrieve_memory,
        description=(
            "Search long-term memory of earlier conversations. Use it whenever the user refers to something said or "
            "done before, or when knowing the user would change the answer. Returns known facts, then past episodes, "
            "best match first, each with when it happened."
        ),
    ),
    ToolSpec(
        name="context_pre_retrieve",
        arguments=recall.ContextArguments,
        function=recall.context_pre_retrieve,
        description=(
            "Look up only the known facts that bear on a message, without past episodes and without leaving a trace. "
            "Meant to run before answering; returns nothing when no fact applies."
        ),
    ),
    ToolSpec(
        name="recent_memory",
        arguments=recall.RecentMemoryArguments,
        function=recall.recent_memory,
        description=(
            "List the newest episodes from earlier conversations, newest first, whatever they are about. "
            "Use it to catch up at the start of a conversation."
        ),
    ),
)
"""The tools that read, with any memory."""

_RECORDS: tuple[AnyToolSpec, ...] = (
    ToolSpec(
        name="memory_store",
        arguments=storing.MemoryStoreArguments,
        function=storing.memory_store,
        writes=True,
        scoped=("scope",),
        description=(
            "Remember one thing for good: a fact, a decision, a preference, a piece of code. Write it so that it can "
            "be understood by itself later. Returns its id."
        ),
    ),
    ToolSpec(
        name="memory_search",
        arguments=searching.MemorySearchArguments,
        function=searching.memory_search,
        scoped=("scope",),
        description=(
            "Search what the memory tools have stored, by meaning, by words, or both, with filters. Returns the best "
            "matches with their ids and how similar they are."
        ),
    ),
    ToolSpec(
        name="memory_get",
        arguments=records.MemoryGetArguments,
        function=records.memory_get,
        description="Read one memory whole, by its id: its content, tags, metadata, and when it was made and changed.",
    ),
    ToolSpec(
        name="memory_update",
        arguments=updating.MemoryUpdateArguments,
        function=updating.memory_update,
        writes=True,
        description=(
            "Change one memory, by its id: its content, tags, metadata or tier. What is left out stays; tags are "
            "replaced, metadata is added to."
        ),
    ),
    ToolSpec(
        name="memory_delete",
        arguments=records.MemoryDeleteArguments,
        function=records.memory_delete,
        writes=True,
        description=(
            "Delete memories for good: one by its id, several by their ids, or all of a tier or older than a moment. "
            "Returns the ids of what was deleted."
        ),
    ),
    ToolSpec(
        name="memory_list",
        arguments=records.MemoryListArguments,
        function=records.memory_list,
        description="List what the memory tools have stored, newest first, a page at a time, with filters.",
    ),
    ToolSpec(
        name="memory_batch_store",
        arguments=batch_storing.MemoryBatchStoreArguments,
        function=batch_storing.memory_batch_store,
        writes=True,
        description="Remember many things at once, which is much faster than one by one. Returns their ids.",
    ),
    ToolSpec(
        name="memory_batch_update",
        arguments=updating.MemoryBatchUpdateArguments,
        function=updating.memory_batch_update,
        writes=True,
        description="Change many memories at once, each by its id as memory_update does.",
    ),
    ToolSpec(
        name="memory_get_score",
        arguments=scores.MemoryGetScoreArguments,
        function=scores.memory_get_score,
        description="Tell how important a memory is, 0 to 1, and how often it was used.",
    ),
    ToolSpec(
        name="memory_set_score",
        arguments=scores.MemorySetScoreArguments,
        function=scores.memory_set_score,
        writes=True,
        description="Set by hand how important a memory is, 0 to 1; use no longer changes it then.",
    ),
    ToolSpec(
        name="memory_consolidate",
        arguments=consolidating.MemoryConsolidateArguments,
        function=consolidating.memory_consolidate,
        writes=True,
        description=(
            "Merge several memories about one thing into a single one, shortened if it gets long. The originals stay "
            "unless preserve_originals is false."
        ),
    ),
)
"""The tools of seed 004: what is stored, record by record; they need an AgentMemory, as those below do."""

_CONNECTIONS: tuple[AnyToolSpec, ...] = (
    ToolSpec(
        name="memory_manage",
        arguments=managing.ManageArguments,
        function=managing.memory_manage,
        description=(
            "Read, change or delete one memory whose id is known. Reading with response_level full also tells what "
            "the memory is associated with."
        ),
        writes=True,
        scoped=("scope",),
    ),
    ToolSpec(
        name="memory_discover_associations",
        arguments=associating.DiscoverAssociationsArguments,
        function=associating.memory_discover_associations,
        description=(
            "Find other memories that are near to one memory in meaning, strongest first. Use it to see what else "
            "is known around something; it changes nothing."
        ),
    ),
    ToolSpec(
        name="memory_move",
        arguments=moving.MoveArguments,
        function=moving.memory_move,
        description="Move memories to another scope. Their ids, times and associations stay.",
        writes=True,
        scoped=("target_scope",),
    ),
    ToolSpec(
        name="memory_list_all",
        arguments=listing.ListAllArguments,
        function=listing.memory_list_all,
        description="Leaf through all stored memories, newest first, page by page. To look for something, search.",
    ),
    ToolSpec(
        name="memory_sync",
        arguments=syncing.SyncArguments,
        function=syncing.memory_sync,
        description=(
            "Export memories as a JSON document, to a file or in the answer, or import such a document. "
            "Ids, times and associations are kept."
        ),
        writes=True,
        scoped=("scope",),
    ),
    ToolSpec(
        name="scope_list",
        arguments=scoping.ScopeListArguments,
        function=scoping.scope_list,
        description="List the scopes that hold memories, with how many each holds.",
        scoped=("parent_scope",),
    ),
    ToolSpec(
        name="scope_suggest",
        arguments=scoping.ScopeSuggestArguments,
        function=scoping.scope_suggest,
        description="Suggest the scope in which a text would best be stored; it stores nothing.",
        scoped=("current_scope",),
    ),
    ToolSpec(
        name="session_manage",
        arguments=sessions.SessionArguments,
        function=sessions.session_manage,
        description=(
            "Create a session (a scope for one piece of work), list the sessions there are, or clean up: delete "
            "what is older than some days in them."
        ),
        writes=True,
    ),
)
"""The tools of seed 002: what belongs together, scopes, sessions, files."""

_STORY: tuple[AnyToolSpec, ...] = (
    ToolSpec(
        name="scene",
        arguments=scene.SceneArguments,
        function=scene.scene,
        scoped=("scope",),
        description=(
            "Tell the story so far: what happened long ago, lately and just now, who is present, and how they feel. "
            "Use it in a role-play before you write what comes next."
        ),
    ),
)
"""The tool of seed 003: the memory of a story; it needs an AgentMemory, too."""

REGISTRY: Mapping[str, AnyToolSpec] = MappingProxyType(
    {tool.name: tool for tool in _RECALL + _RECORDS + _CONNECTIONS + _STORY}
)
"""Every tool by its name, in the order in which they are offered."""


def offered_tools(*, allow_scopes: bool, names: Collection[str] | Literal["read"] | None = None) -> list[AnyToolSpec]:
    """The tools that a host offers to a model.

    Args:
        allow_scopes: Whether the model may name scopes; without that, tools that are about scopes are not offered.
        names: Only these, in this order; ``"read"`` means those that change nothing, None all.

    Raises:
        NotFoundError: There is no tool of a given name, or it needs ``allow_scopes``.
    """
    offered = {name: tool for name, tool in REGISTRY.items() if allow_scopes or not tool.is_about_scopes}
    if names is None:
        return list(offered.values())
    if names == "read":
        return [tool for tool in offered.values() if not tool.writes]
    return [find_tool(name, among=offered) for name in names]


def find_tool(name: str, *, among: Mapping[str, AnyToolSpec] = REGISTRY) -> AnyToolSpec:
    """The tool of that name.

    Raises:
        NotFoundError: There is none; the message names those there are.
    """
    if name in among:
        return among[name]
    if name in REGISTRY:
        raise NotFoundError(f"{name} is about scopes, which models may not name here: give allow_scopes=True")
    raise NotFoundError(f"Unknown tool: {name}. Known tools: {', '.join(among)}")
