"""`python -m outlive`: the command line."""

from outlive.commands import main

main()
