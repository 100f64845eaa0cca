"""`python -m samebits`."""

from samebits.cli.main import main

main()
