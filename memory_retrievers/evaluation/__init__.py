"""Measures how well memories are found: on LoCoMo, on a user's own questions, on a small synthetic set.

``metrics`` is the arithmetic; ``conversations`` is what is asked about, read by ``locomo`` or made by ``synthetic``;
``filling`` keeps it in stores, ``measuring`` asks, ``scoring`` counts, ``ablation`` says which settings are compared,
and ``report`` puts them side by side. Nothing here records a retrieval: what is measured is not changed by it.
"""
