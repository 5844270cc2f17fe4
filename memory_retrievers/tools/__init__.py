"""The memory tools for language models, free of any framework.

``registry`` is the one table of them and calls them by name; the adapters in ``langchain`` and ``llama_index`` are
generated from it.
"""
