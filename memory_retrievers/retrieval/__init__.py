"""The read path, in the order it happens: request, legs, fusion, re-ranking, result; then the pending review."""
