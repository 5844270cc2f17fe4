"""What a language model is told and asked: one file per task, each with its prompts and the schema of the answer."""
