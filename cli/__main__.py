from traube.foundation.console import main

main()
