"""Trainers, one file each, which offers `TRAINER` and is discovered by the package.

Code that several trainers share is in `traube.training`.
"""
