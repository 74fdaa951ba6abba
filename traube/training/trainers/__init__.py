"""Trainers, one file each, found by themselves: a module offers `TRAINER`, a class.

What several trainers share is not here but in `traube.training`.
"""
