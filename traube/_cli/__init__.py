"""The command `traube`, one file per family of commands; `main` puts them together.

The platform and plug-ins, which add commands, import `console`, `given`, `launcher`, `options`, `platform`, `printing` and `run`.
"""
