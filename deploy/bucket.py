"""Make a bucket, unless it is there: `python deploy/bucket.py NAME`."""

import sys

from s3fs import S3FileSystem

S3FileSystem().makedirs(sys.argv[1], exist_ok=True)
