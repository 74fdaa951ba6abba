from traube.cli.console import main

main()
