"""Check that a web server answers, for health checks: `python deploy/answers.py URL`."""

import sys
from urllib.request import urlopen

urlopen(sys.argv[1], timeout=5).read()  # noqa: S310
