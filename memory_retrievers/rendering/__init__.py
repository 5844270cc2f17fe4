"""How memories look from outside: markdown for a model to read, JSON for programs. Plain records in, text out."""
