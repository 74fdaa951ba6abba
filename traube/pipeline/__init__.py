"""From a request to scores.

It holds params.yaml, the models and data at hand, the plan of missing cells, the driver that carries out a plan, the
stored cells that are current, and their records.
"""
