"""The Transformer in small building blocks, a module a chapter."""
