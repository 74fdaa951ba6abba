"""What is asked for and what counts: params.yaml, the plan of missing cells, which stored cells are
current, their records.

Nothing is computed here; that is `traube.engine`.
"""
