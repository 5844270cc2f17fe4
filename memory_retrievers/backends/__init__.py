"""Storage engines, indexes, embedders and language models; one module alone imports each third-party library."""
