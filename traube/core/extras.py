"""Packages that only an extra installs, and what to say where one is missing."""


def install_hint(extra: str, target: str = "setup-scale") -> str:
    """Return how to install an extra.

    Parameters
    ----------
    target : of the Makefile, which does so in a checkout
    """
    return f"pip install 'traube[{extra}]', in a checkout make {target}"
