"""The memory tools for language models, free of any framework.

``registry`` is the one table of them, ``toolbox`` calls them by name, and the adapters in ``langchain`` and
``llama_index`` are generated from the table.
"""
