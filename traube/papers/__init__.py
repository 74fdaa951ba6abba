"""The papers, each a plug-in (`traube._core.plugins`): nothing outside imports them."""
