"""Trainers, one file each, found by themselves: each offers `TRAINER`. What several share is in `traube.training`."""
