"""Estimators of Traube, and wrapped ones, with scikit-learn conventions: they pass its checks.

A module is imported when its estimator is built.
"""
