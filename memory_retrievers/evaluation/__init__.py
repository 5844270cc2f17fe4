"""Measures retrieval quality: on LoCoMo, on a user's own questions, on a small synthetic set.

``measure`` has the arithmetic; ``conversations`` is the data, made there by rules, read by ``datasets`` or made by
``forgetting``; ``stores`` fills stores with it, ``measure`` asks and scores, ``custom`` does so for a user's own
questions, and ``report`` compares settings. Nothing here records a retrieval: measuring does not change a memory.
"""
