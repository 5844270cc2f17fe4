"""The read path, in this order: request, plan, candidates, ranking with its trace, result."""
