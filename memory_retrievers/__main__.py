"""The command line, for ``python -m memory_retrievers``."""

from memory_retrievers.cli import app

if __name__ == "__main__":
    app(prog_name="memory-retrievers")
