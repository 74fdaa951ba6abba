"""The command `traube`, one file per family of commands; `main` puts them together."""
