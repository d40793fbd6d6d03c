"""How the base model of the lab was trained: its tokenizer, its habits, and the command that makes it again."""
