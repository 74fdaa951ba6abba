"""Kinds of tasks: a module for each."""
