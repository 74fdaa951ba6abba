"""From a request to scores.

The modules hold params.yaml, the survey of what is at hand, the plan of missing cells, the driver that carries out a
plan, the selection of the stored cells that are current, and their records.

Other rooms import all modules but `deep`, `embed` and `score`.
"""
