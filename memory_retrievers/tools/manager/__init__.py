"""Operations of the memory tools on memories: storing, searching, changing, moving and associating them.

Everything goes through the store, so that each operation is whole or not at all. Nothing here knows what a tool's
answer looks like, nor what a model may name.
"""
