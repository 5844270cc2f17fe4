"""Registry of all tools, from which the adapters are generated, the four essential ones, and the toolbox."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self, get_type_hints

from pydantic import model_validator

from memory_retrievers.errors import ConfigurationError, NotFoundError, ValidationError, error_object
from memory_retrievers.tools import associate, batches, records, retrieve, scopes, search, store, sync, update
from memory_retrievers.tools.arguments import LEVEL_ARGUMENT, ArgumentsT, MemoryId, without
from memory_retrievers.tools.records import MemoryDeleteArguments
from memory_retrievers.tools.tool import Answer, AnyTool, Tool, ToolChoice, ToolContext, ToolOutput, run_tool

ESSENTIAL: Final[Mapping[str, str]] = MappingProxyType(
    {
        "retrieve_memory": (
            "Search long-term memory of earlier conversations. Use it whenever the user refers to something said or "
            "done before, or when knowing the user would change the answer. Returns known facts, then past episodes, "
            "best match first. With response_level full it also tells the ids, for memory_update and memory_delete."
        ),
        "memory_store": (
            "Remember one thing for good: a fact, a decision, a preference. Write it so that it can be understood by "
            "itself later. Returns its id."
        ),
        "memory_update": (
            "Change one memory, by its id: its text, or its tags. What is left out stays. Use it when something has "
            "changed, instead of storing it a second time."
        ),
        "memory_delete": (
            "Delete one memory permanently by its id, or one message of an earlier conversation by its words. Use it "
            "when the user asks you to forget something; its answer names some of what still mentions it."
        ),
    }
)
"""What each is for, in the order in which they are offered; no word of it needs a further tool."""

ESSENTIAL_ARGUMENTS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "retrieve_memory": frozenset({"query", "category"}),
        "memory_store": frozenset({"content", "category", "tags"}),
        "memory_update": frozenset({"id", "content", "tags"}),
        "memory_delete": frozenset({"id", "message"}),
    }
)
"""The arguments that each is offered with, beside the response level and scopes; the others keep their defaults."""


class DeleteByIdArguments(MemoryDeleteArguments):
    """Arguments of ``memory_delete`` where it takes one id, or the words of one message, and nothing else."""

    hidden: ClassVar[frozenset[str]] = frozenset(MemoryDeleteArguments.model_fields) - {"id", "message", LEVEL_ARGUMENT}

    id: MemoryId | None = None

    @model_validator(mode="after")
    def _name_something(self) -> Self:
        if self.id is None and self.message is None:
            raise ValueError("Say what to delete: give id, or message")
        return self


@cache
def _essential(name: str) -> AnyTool:
    """An essential tool as a model is to see it that has few others."""
    tool = REGISTRY[name]
    others = frozenset(tool.arguments.model_fields) - ESSENTIAL_ARGUMENTS[name] - {LEVEL_ARGUMENT, *tool.scoped}
    by_id = issubclass(tool.arguments, MemoryDeleteArguments)
    arguments = DeleteByIdArguments if by_id else without(tool.arguments, others)
    return replace(tool, description=ESSENTIAL[name], arguments=arguments)


def _reduced(tool: AnyTool) -> str | tuple[Any, ...]:
    """What a pickle holds of a tool: its name if it is one of these, since models of arguments are made here."""
    if REGISTRY.get(tool.name) is tool:
        return find_tool, (tool.name,)
    is_essential = tool.name in ESSENTIAL and _essential(tool.name) is tool
    return (_essential, (tool.name,)) if is_essential else object.__reduce_ex__(tool, 2)


copyreg.pickle(Tool, _reduced)


def _tool(
    function: Callable[[ToolContext, ArgumentsT], Answer | ToolOutput],
    description: str,
    *,
    writes: bool = False,
    scoped: tuple[str, ...] = (),
) -> AnyTool:
    """The tool that a function is, by its own name and with the arguments that it takes."""
    return Tool(
        name=function.__name__,
        description=description,
        arguments=get_type_hints(function)["arguments"],
        function=function,
        writes=writes,
        scoped=scoped,
    )


_TOOLS: Final[tuple[AnyTool, ...]] = (
    # reading, with any memory
    _tool(
        retrieve.retrieve_memory,
        "Search long-term memory of earlier conversations. Use it whenever the user refers to something said or "
        "done before, or when knowing the user would change the answer. Returns known facts, then past episodes, "
        "best match first, each with when it happened.",
    ),
    _tool(
        retrieve.context_pre_retrieve,
        "Look up only the known facts that are relevant to a message, without past episodes; not counted as a use. "
        "Meant to run before answering; returns nothing when no fact applies.",
    ),
    _tool(
        retrieve.recent_memory,
        "List what was remembered last, facts and episodes, each newest first, whatever they are about. "
        "Use it to catch up at the start of a conversation.",
    ),
    # what is stored, record by record; these need an AgentMemory, as those below do
    _tool(
        store.memory_store,
        "Remember one thing for good: a fact, a decision, a preference, a piece of code. Write it so that it can "
        "be understood by itself later. Returns its id.",
        writes=True,
        scoped=("scope",),
    ),
    _tool(
        search.memory_search,
        "Search all memories, facts and episodes, by meaning, by words, or both, with filters. Returns the best "
        "matches with their ids and how similar they are.",
        scoped=("scope",),
    ),
    _tool(
        records.memory_get,
        "Read one memory whole, by its id: its content, tags, metadata, and when it was made and changed.",
    ),
    _tool(
        update.memory_update,
        "Change one memory, by its id: its content, tags, metadata or tier. What is left out stays; tags are "
        "replaced, metadata is merged.",
        writes=True,
    ),
    _tool(
        records.memory_delete,
        "Delete memories permanently: one by its id, several by their ids, one message of a conversation by its words, "
        "or what the memory tools have stored in a tier or before a time. Returns the ids of what was deleted.",
        writes=True,
    ),
    _tool(records.memory_list, "List all memories, facts and episodes, newest first, a page at a time, with filters."),
    _tool(
        batches.memory_batch_store,
        "Remember many things at once, which is much faster than one by one. Returns their ids.",
        writes=True,
    ),
    _tool(
        batches.memory_batch_update, "Change many memories at once, each by its id as memory_update does.", writes=True
    ),
    _tool(update.memory_get_score, "Tell how important a memory is, 0 to 1, and how often it was used."),
    _tool(
        update.memory_set_score,
        "Set how important a memory is, 0 to 1; later uses no longer change it.",
        writes=True,
    ),
    _tool(
        update.memory_consolidate,
        "Merge several memories about one thing into a single one, shortened if it gets long. The originals stay "
        "unless preserve_originals is false.",
        writes=True,
    ),
    # what belongs together, scopes, sessions, files
    _tool(
        records.memory_manage,
        "Read, change or delete one memory whose id is known. Reading with response_level full also tells what "
        "the memory is associated with.",
        writes=True,
        scoped=("scope",),
    ),
    _tool(
        associate.memory_discover_associations,
        "Find other memories that are similar to one memory in meaning, most similar first. Use it to see what else "
        "is known about a subject; it changes nothing.",
    ),
    _tool(
        update.memory_move,
        "Move memories to another scope. Their ids, times and associations stay.",
        writes=True,
        scoped=("target_scope",),
    ),
    _tool(
        records.memory_list_all,
        "List all stored memories page by page, newest first. To look for something, search instead.",
    ),
    _tool(
        sync.memory_sync,
        "Export facts as a JSON document, to a file or in the answer, or import such a document; with "
        "kind='all' episodes as well. Ids, times and associations are kept.",
        writes=True,
        scoped=("scope",),
    ),
    _tool(scopes.scope_list, "List the scopes that hold memories, with how many each holds.", scoped=("parent_scope",)),
    _tool(
        scopes.scope_suggest,
        "Suggest the scope in which a text would best be stored; it stores nothing.",
        scoped=("current_scope",),
    ),
    _tool(
        scopes.session_manage,
        "Create a session (a scope for one piece of work), list the sessions, or clean up: delete what the "
        "memory tools have stored in them that is older than a number of days.",
        writes=True,
    ),
    # the memory of a story
    _tool(
        retrieve.scene,
        "Tell the story so far: what happened long ago, lately and just now, who is present, and how they feel. "
        "Use it in a role-play before you write what comes next.",
        scoped=("scope",),
    ),
)

REGISTRY: Mapping[str, AnyTool] = MappingProxyType({tool.name: tool for tool in _TOOLS})
"""Every tool by its name, in the order in which they are offered."""


def offered_tools(choice: ToolChoice, *, allow_scopes: bool) -> list[AnyTool]:
    """The tools that a host offers to a model, which may name scopes or not; else those about scopes are left out.

    Chosen are names, in this order; ``"essential"`` means the four that a model needs, with few arguments each,
    ``"read"`` all that change nothing, ``"all"`` all.

    Raises:
        NotFoundError: There is no tool of a given name, or it needs ``allow_scopes``.
        ConfigurationError: The choice is another word than these.
    """
    offered = {name: tool for name, tool in REGISTRY.items() if allow_scopes or not tool.is_about_scopes}
    if choice == "essential":
        return [_essential(name) for name in ESSENTIAL if name in offered]
    if choice == "all":
        return list(offered.values())
    if choice == "read":
        return [tool for tool in offered.values() if not tool.writes]
    if isinstance(choice, str) or not isinstance(choice, Iterable):
        raise ConfigurationError(f"tools must be 'essential', 'all', 'read' or a list of names, not {choice!r}")
    return [find_tool(name, among=offered) for name in choice]


def parse_tool_choice(given: str) -> ToolChoice:
    """The choice that a person has written: one of the words, or names of tools with commas between them.

    >>> parse_tool_choice("all"), parse_tool_choice("memory_get, memory_list")
    ('all', ('memory_get', 'memory_list'))
    """
    match given:
        case "essential" | "all" | "read":
            return given
    return tuple(name.strip() for name in given.split(",") if name.strip())


def find_tool(name: str, *, among: Mapping[str, AnyTool] = REGISTRY) -> AnyTool:
    """The tool of that name."""
    if name in among:
        return among[name]
    if name in REGISTRY:
        raise NotFoundError(f"{name} is about scopes, which models may not name here: give allow_scopes=True")
    raise NotFoundError(f"Unknown tool: {name}. Known tools: {', '.join(among)}")


class LocalToolbox:
    """All tools of the registry, on a memory in this process."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._tools = {tool.name: tool for tool in offered_tools("all", allow_scopes=context.allow_scopes)}

    def call(self, name: str, arguments: Mapping[str, object]) -> ToolOutput:
        """Run a tool. Errors, an unknown name included, are answered with the error object."""
        try:
            tool = find_tool(name, among=self._tools)
        except NotFoundError as error:
            return ToolOutput.of(error_object(error), is_error=True)
        if not isinstance(arguments, Mapping):  # a model may write null, or a list
            refused = ValidationError(f"the arguments of {name} must be a JSON object")
            return ToolOutput.of(error_object(refused), is_error=True)
        return run_tool(tool, self._context, arguments)
