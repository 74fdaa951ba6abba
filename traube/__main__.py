"""`python -m traube`: the command of the code in the working directory, whichever is installed."""

from traube._cli.console import main

if __name__ == "__main__":
    main()
