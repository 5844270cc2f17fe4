"""What ``make test`` leaves to ``make test-all``: the option ``--quick`` of pytest.

Without the option everything runs. With it every claim is tested once, in minutes: one pair of engines in place of
four, fewer examples of each property, and none of what needs servers, browsers or processes of its own, megabytes or
seconds.
"""

import contextlib
import fnmatch
import functools
import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

HERE = Path(__file__).parent

LEFT_OUT = {
    "backends/test_caches_are_bounded.py": "fills caches by megabytes and measures them",
    "backends/test_postgres*.py": "a PostgreSQL server for every worker",
    "cli/test_installed_command.py": "processes of their own, pipes and locales",
    "cli/test_migrate.py": "a PostgreSQL server, and processes that are killed",
    "cli/test_places.py": "a PostgreSQL server",
    "cli/test_eval.py": "whole evaluations",
    "cli/test_progress.py": "processes of their own on a terminal",
    "crash": "processes that are killed, full disks, waiting",
    "evaluation/test_floors.py": "whole evaluations with the bundled embedder",
    "examples/test_chat.py": "a server, and programs that talk with it",
    "ingestion/test_kills.py": "36 processes that are killed",
    "langchain_adapter/test_imports.py": "interpreters of their own",
    "llama_index_adapter/test_imports.py": "interpreters of their own",
    "notebooks": "kernels, and minutes of cells",
    "remote/test_adapters.py": "a server on a socket for every adapter and tool",
    "remote/test_transport.py": "servers that answer late, never or twice",
    "server/test_bombs.py": "bodies as large as a server takes, and larger",
    "server/test_connections.py": "connections that are kept waiting for seconds",
    "server/test_docs.py": "servers in processes of their own",
    "server/test_mcp.py": "servers in processes of their own",
    "server/test_mcp_sessions.py": "sessions that grow old",
    "server/test_openapi.py": "hundreds of requests, and a library that takes long to import",
    "server/test_workers.py": "servers in processes of their own",
    "server/test_repeated_requests.py": "servers in processes of their own that are killed",
    "server/test_running.py": "servers in processes of their own, and signals",
    "storage/chroma_sync/test_killed.py": "processes that are killed",
    "storage/test_mutated_imports.py": "hundreds of imports of files that were changed at random",
    "storage/test_forks.py": "processes and pools of them",
    "storage/test_ownership.py": "processes that hold a store or are killed",
    "window/test_large.py": "a hundred thousand memories",
    "window/test_running.py": "processes of their own that write, and a PostgreSQL server",
    "test_nothing_leaves.py": "interpreters of their own under an audit",
    "test_release.py": "builds what is released",
    "test_site.py": "builds the documentation site",
    "test_site_in_browser.py": "a browser",
    "test_typing_of_programs.py": "a type checker that reads both frameworks",
}
"""Files and folders that are not even collected, and what takes their time."""

_PROCESSES = "processes of their own"

LEFT_TESTS = {
    "backends/embeddings/test_adapt.py::test_no_framework_*": _PROCESSES,
    "backends/embeddings/test_minilm.py::test_each_golden_text_in_any_batch_*": "the bundled model over and over",
    "backends/embeddings/test_minilm.py::test_eight_threads_*": "the bundled model in processes of its own",
    "backends/embeddings/test_minilm.py::test_nothing_is_loaded_*": _PROCESSES,
    "backends/embeddings/test_minilm.py::test_vectors_come_in_the_order_*": "the bundled model over and over",
    "backends/embeddings/test_sharing.py::test_stores_share_one_model_*": "the bundled model, loaded over and over",
    "backends/projection/test_index.py::test_purging_does_not_wait_*": "a feed that is slow on purpose",
    "backends/test_answers_of_any_model.py::test_no_part_asks_*": "reads the whole package",
    "backends/test_chroma.py::TestInADirectory::*": "the same promises as those of Chroma in memory",
    "backends/test_chroma.py::test_a_death_*": "processes that are killed",
    "backends/test_chroma.py::test_two_deaths_*": "processes that are killed",
    "backends/test_exact.py::TestExactVectorIndexWithoutSnapshots::*": "the same promises as with snapshots",
    "backends/test_keyword_engines.py::TestPostingsKeywordIndexOnDisk::*": "the same statements as those in memory",
    "backends/test_keyword_engines.py::test_postings_of_a_wide_scope_go_on_*": "a scope as wide as a volume",
    "backends/test_language_models.py::TestJsonInText::test_it_is_found_whatever_*": "megabytes of text",
    "backends/test_migrations.py::test_a_process_killed_*": _PROCESSES,
    "backends/test_migrations.py::test_another_process_*": _PROCESSES,
    "backends/test_processes.py::test_a_process_that_*": _PROCESSES,
    "backends/test_processes.py::test_the_turn_*": _PROCESSES,
    "backends/test_snapshots.py::TestLife::*": "lives of a store, compared after every step with one made anew",
    "backends/test_sqlite.py::TestSQLiteLedgerOnDisk::*": "the same statements as those of the ledger in memory",
    "cli/test_beside_another_process.py::*": "processes that hold a store",
    "cli/test_demo.py::*": "the bundled model, and a story of weeks",
    "cli/test_embedders.py::test_what_embeds_nothing_*[[]command[1-9]]": "one command will do; test-all tries all",
    "cli/test_hostile_text.py::test_an_export_to_a_terminal_*": _PROCESSES,
    "cli/test_inspect.py::test_inspect_looks_into_*": _PROCESSES,
    "cli/test_options.py::test_a_forked_process_*": _PROCESSES,
    "cli/test_tools.py::test_an_import_here_may_be_as_large_*": "megabytes of text",
    "cli/test_upkeep.py::test_the_installed_command_*": _PROCESSES,
    "evaluation/test_calibration.py::test_a_store_is_fitted_*": "a whole evaluation",
    "evaluation/test_metrics.py::test_the_bootstrap_agrees_*": "thousands of drawings",
    "evaluation/test_tokens.py::test_cl100k_*": "a table of 100,000 tokens",
    "evaluation/test_tokens.py::test_llama_index_is_not_*": _PROCESSES,
    "examples/test_own_parts.py::test_a_server_*": "a server in a process of its own",
    "examples/test_own_parts.py::test_an_mcp_client_*": "a server in a process of its own",
    "ingestion/test_extractive.py::test_what_is_pasted_without_an_end_*": "megabytes of text",
    "ingestion/test_heard_once.py::TestConversations::*": "lives of conversations",
    "ingestion/test_offline.py::TestMeasure::test_on_*": "whole conversations, measured",
    "ingestion/test_own_categories.py::test_the_description_of_the_http_routes_*": "builds the document of all routes",
    "ingestion/test_worker.py::test_a_worker_that_cannot_look_*": "waits for a second",
    "ingestion/test_worker.py::test_what_another_process_is_at_*": "waits for a second",
    "ingestion/test_worker.py::test_what_failed_and_was_forgotten_*": "waits for a second",
    "langchain_adapter/test_as_langgraph.py::test_*[[]awaited*": "the same as what is called",
    "langchain_adapter/test_prompt_cache.py::*": "whole conversations, prompt by prompt",
    "langchain_adapter/test_standard_suites.py::*::*async_invoke_*": "the same as what is called",
    "llama_index_adapter/test_block.py::test_each_message_of_a_long_chat_*": "a chat of hundreds of messages",
    "llama_index_adapter/test_block.py::test_it_does_not_block_*": "all that a block does, under a guard of the event loop",
    "llama_index_adapter/test_block.py::test_llama_index_keeps_what_was_truncated_*": "chats of hundreds of messages",
    "llama_index_adapter/test_block.py::test_the_guard_*": "the same guard",
    "mcp_server/test_protocol.py::test_every_answer_*[[]full-plain*": "the default in the plain form says as much",
    "mcp_server/test_protocol.py::test_every_answer_*[[]minimal-*": "the longer answers say as much",
    "mcp_server/test_protocol.py::test_every_answer_*[[]standard-*": "the longer answers say as much",
    "memory/test_copies.py::test_a_pickle_opens_*": _PROCESSES,
    "memory/test_differential.py::test_no_answer_is_wrong_*": "threads that write and search for seconds",
    "models/test_foreign_messages.py::test_reading_messages_*": _PROCESSES,
    "retrieval/rendering/test_hostile_text.py::test_many_characters_*": "megabytes of text",
    "retrieval/test_late_interaction.py::test_what_is_kept_of_a_passage_*": "thousands of messages, measured",
    "retrieval/test_question.py::test_a_long_text_*": "megabytes of text",
    "retrieval/test_statements.py::test_updates_between_*": "each search once for each of its statements",
    "server/test_errors.py::test_every_route_tells_*": "builds the document of all routes",
    "server/test_errors.py::test_openapi_tells_*": "builds the document of all routes",
    "server/test_errors.py::test_the_document_says_*": "builds the document of all routes",
    "server/test_idempotency.py::test_requests_are_forgotten_*": "a thousand requests",
    "storage/chroma_sync/test_filtering.py::test_a_filter_of_any_depth_*": "filters as deep as they can be",
    "storage/chroma_sync/test_sources.py::test_*[[]http*": "a Chroma server",
    "storage/chroma_sync/test_taking_in.py::test_nothing_is_embedded_but_*": "thousands of rows in Chroma",
    "storage/chroma_sync/test_taking_in.py::test_progress_*": "thousands of rows in Chroma",
    "storage/test_embedder.py::test_*[[]postgres*": "a PostgreSQL server",
    "storage/test_export.py::test_a_line_*": "megabytes of text",
    "storage/test_export.py::test_several_pages_*": "thousands of memories",
    "storage/test_files.py::test_a_database_that_is_truncated_*": "processes that must not die",
    "storage/test_files.py::test_a_log_on_a_read_only_*": "a mount in a process of its own",
    "storage/test_files.py::test_a_pipe_*": _PROCESSES,
    "storage/test_files.py::test_a_store_on_a_read_only_*": "a mount in a process of its own",
    "storage/test_files.py::test_a_store_that_is_written_elsewhere_*": "a mount in a process of its own",
    "storage/test_files.py::test_all_files_*": _PROCESSES,
    "storage/test_operation_spans.py::test_a_program_that_does_not_*": _PROCESSES,
    "storage/test_questions.py::test_threads_*": "threads, and the bundled model",
    "storage/test_reembedding.py::test_a_search_never_mixes_*": "threads that write and search for seconds",
    "storage/test_reembedding.py::test_memories_written_changed_*": "threads that write meanwhile",
    "storage/test_reembedding.py::test_what_a_killed_*": _PROCESSES,
    "storage/test_reembedding.py::test_who_asks_for_the_embedder_in_a_transaction_*": _PROCESSES,
    "storage/test_reembedding.py::test_who_looks_into_a_store_that_was_moved_*": _PROCESSES,
    "storage/test_reindexing.py::test_a_process_*": _PROCESSES,
    "storage/test_verify.py::test_postings_are_verified_page_*": "thousands of memories",
    "storage/test_verify.py::test_several_pages_*": "thousands of memories",
    "test_fsrs.py::test_reading_a_memory_*": _PROCESSES,
    "test_pages.py::test_the_figures_below_*": _PROCESSES,
    "test_pages.py::test_the_picture_*": "a recording of a terminal",
    "test_public_api.py::test_a_memory_that_searches_exactly_*": _PROCESSES,
    "test_public_api.py::test_opening_and_retrieving_*": _PROCESSES,
    "test_public_api.py::test_the_langchain_adapter_*": _PROCESSES,
    "test_trace.py::*": _PROCESSES,
    "testing/test_fakes.py::test_hashed_vectors_are_the_same_in_every_*": _PROCESSES,
    "text/test_analysis.py::TestAnalyze::test_a_million_characters_*": "megabytes of text",
    "text/test_dates.py::test_a_letter_in_another_form_*": "compares with one large pattern",
    "text/test_dates.py::test_the_end_of_what_is_looked_at_*": "compares with one large pattern",
    "tools/test_argument_bounds.py::test_no_list_is_endless_*": "every list of every tool, as long as it may be",
    "tools/test_isolation_of_tools.py::test_an_id_of_another_root_*-minimal]": "the longer answers say as much",
    "tools/test_isolation_of_tools.py::test_an_id_of_another_root_*-standard]": "the longer answers say as much",
    "tools/test_sizes_of_answers.py::*": "every tool at every level, measured",
    "tools/test_sync_bounds.py::test_a_bomb_*": "megabytes of text",
    "tools/test_sync_bounds.py::test_the_largest_document_*": "a document of many megabytes, measured",
    "tools/test_sync_files.py::test_what_unpacks_*": "megabytes of text",
    "window/test_changing.py::test_what_was_read_ahead_*": "thousands of memories",
}
"""Single tests, by patterns of their ids, and why they are left out."""

_LEFT = re.compile("|".join(fnmatch.translate(f"tests/{pattern}") for pattern in LEFT_TESTS))

SERVERS = {
    "browser": "headless Chromium",
    "chroma_client": "a Chroma server",
    "postgres_server": "a PostgreSQL server",
    "run_chroma": "a Chroma server",
    "start_chroma": "a Chroma server",
}
"""Fixtures that start a process of their own; the tests that ask for one are left out."""

ENGINES = {"keyword": "sqlite_bm25", "dense": "exact"}
"""Of the engines that the fixtures give one after the other, those that stay: the contracts hold all to the same."""

EXAMPLES = 10
"""How many examples hypothesis tries of a property."""

MACHINES = 5
"""How many lives it tries of a machine, each of some twenty steps."""


IN_MEMORY, ROOM = Path("/dev/shm"), 4_000_000_000  # noqa: S108 - a folder of one's own is made in it
"""Where the system keeps files in memory, and the bytes that must be free there: a run fills an eighth of them."""


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="every claim once, in minutes: what make test runs")


@pytest.hookimpl(tryfirst=True)  # before pytest itself looks where the files of the tests are to be
def pytest_configure(config):
    """Keep the files of the tests in memory, where there is room: a store on a disk takes half as long again.

    ``--basetemp`` names another place, whose files stay; what is in memory goes with the end of the run, or, if that
    was killed, before the next.
    """
    if config.getoption("quick") and config.option.basetemp is None and _is_roomy(IN_MEMORY):
        for left in IN_MEMORY.glob("memory-retrievers-tests-*"):
            if not Path("/proc", left.name.split("-")[3]).exists():  # the process that made it
                shutil.rmtree(left, ignore_errors=True)
        config.option.basetemp = tempfile.mkdtemp(prefix=f"memory-retrievers-tests-{os.getpid()}-", dir=IN_MEMORY)
        config.add_cleanup(functools.partial(shutil.rmtree, config.option.basetemp, ignore_errors=True))


def pytest_ignore_collect(collection_path, config):
    """Leave out whole files, unless one is named on the command line."""
    return True if config.getoption("quick") and _left_out(collection_path) else None


def keep_quick(config, items):
    """Leave out single tests, and try fewer examples of the others."""
    left = {item for item in items if _is_left(item)}
    config.hook.pytest_deselected(items=list(left))
    items[:] = [item for item in items if item not in left]
    for item in items:
        cap_examples(getattr(item, "function", None))
        cap_machine(getattr(item, "cls", None))


def cap_examples(test):
    """Let hypothesis try no more than ``EXAMPLES``, whatever the test's own settings say."""
    inner = getattr(test, "_hypothesis_internal_use_settings", None)
    if inner is not None and inner.max_examples > EXAMPLES:
        test._hypothesis_internal_use_settings = settings(inner, max_examples=EXAMPLES)


def cap_machine(case):
    """The same for a machine of hypothesis, whose settings belong to its class."""
    given = getattr(case, "settings", None)
    if isinstance(given, settings) and given.max_examples > MACHINES:
        case.settings = settings(given, max_examples=MACHINES)


def _is_roomy(directory):
    with contextlib.suppress(OSError):
        return shutil.disk_usage(directory).free >= ROOM
    return False


def _left_out(path):
    if not path.is_relative_to(HERE):
        return False
    relative = path.relative_to(HERE).as_posix()
    return any(fnmatch.fnmatchcase(relative, pattern) for pattern in LEFT_OUT)


def _is_left(item):
    return (
        item.get_closest_marker("slow") is not None
        or _LEFT.match(item.nodeid) is not None
        or not SERVERS.keys().isdisjoint(getattr(item, "fixturenames", ()))
        or _has_other_engines(item)
    )


def _has_other_engines(item):
    given = item.callspec.params if hasattr(item, "callspec") else {}
    asked = {name for mark in item.iter_markers("parametrize") for name in _names(mark)}
    return any(name in given and name not in asked and given[name] != engine for name, engine in ENGINES.items())


def _names(mark):
    names = mark.args[0]
    return {each.strip() for each in names.split(",")} if isinstance(names, str) else set(names)
