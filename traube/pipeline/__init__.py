"""From what is asked for to scores: params.yaml, what is at hand, the plan of missing cells, the driver that does what
a plan says, which stored cells are current, their records.
"""
