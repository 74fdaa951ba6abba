"""placeholder until merged"""

import numpy as np


def page_auc(alike, labels):
    from sklearn.metrics import roc_auc_score

    i, j = np.triu_indices(len(labels), 1)
    same = labels[i] == labels[j]
    return float("nan") if same.all() or not same.any() else float(roc_auc_score(same, alike[i, j]))
