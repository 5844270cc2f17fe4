"""Measures retrieval quality: on public data sets, on a user's own questions, and on a small synthetic set.

``conversations`` defines the data and fills stores with it; ``datasets`` reads it from files, and ``synthetic``
generates it. ``measure`` asks and scores, ``custom`` does so for a user's own questions, ``silence`` and
``calibration`` measure and fit relevance, and ``report`` prints the results. Measuring never changes a memory.
"""
