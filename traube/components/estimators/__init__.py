"""Estimators of our own, and wrapped ones, with scikit-learn conventions: they pass its checks.
Imported when one is built.
"""
