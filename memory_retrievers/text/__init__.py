"""Text processing: search terms, passages, summaries, dates and duplicates, without any model."""

from memory_retrievers.text.analysis import MAX_PARTS as MAX_PARTS
from memory_retrievers.text.analysis import MAX_WORD_LENGTH as MAX_WORD_LENGTH
from memory_retrievers.text.analysis import SMALL_PHRASES as SMALL_PHRASES
from memory_retrievers.text.analysis import SMALL_TALK as SMALL_TALK
from memory_retrievers.text.analysis import STOP_WORDS as STOP_WORDS
from memory_retrievers.text.analysis import analyze as analyze
from memory_retrievers.text.analysis import caseless as caseless
from memory_retrievers.text.analysis import for_terminals as for_terminals
from memory_retrievers.text.analysis import has_word as has_word
from memory_retrievers.text.analysis import indexed_line as indexed_line
from memory_retrievers.text.analysis import json_for_terminals as json_for_terminals
from memory_retrievers.text.analysis import one_line as one_line
from memory_retrievers.text.analysis import quote as quote
from memory_retrievers.text.analysis import without_closing_tags as without_closing_tags
from memory_retrievers.text.analysis import without_hidden as without_hidden
from memory_retrievers.text.analysis import without_remark as without_remark
