"""`python -m tocsin` is the `tocsin` command."""

import sys

from tocsin.cli.main import main

sys.exit(main())
