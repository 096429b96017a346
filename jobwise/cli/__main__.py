"""`python -m jobwise.cli`: the same as the command `jobwise`."""

from jobwise.cli.main import main

main()
