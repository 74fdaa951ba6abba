"""Enhancement of short text clustering by iterative classification (Rakib, Zeh, Jankowska & Milios 2020)."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from traube.components.estimators.reducers import FLOATS, SparseInput
from traube.components.new_points import Matrix
from traube.components.registry import get_clusterer
from traube.components.spherical import Labels
from traube.papers.aecl.isolation import depths

TREES = 100


@dataclass(eq=False, repr=False)
class IterativeClassification(ClusterMixin, SparseInput):
    """Improve a clustering by a classifier that learns from the inner part of each cluster.

    In every iteration a share P is drawn uniformly from [`least`, `most`]. In each cluster the outliers are left aside,
    and of the others at most P n / k, drawn at random, are learned from by multinomial logistic regression, which labels
    all other texts again. The iterations end once the clusters' sizes change by no more than `steady`, in the mean.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    start : str or ndarray of int, default="kmeans"
        Clusterer that makes the first clusters, a registered one that takes their number; or these clusters
        themselves, int [n].
    iterations : int, default=50
        Largest number of iterations.
    least : float, default=0.5
        Lower bound of the share P.
    most : float, default=0.95
        Upper bound of the share P.
    outliers : float, default=0.1
        Share of a cluster's texts that an isolation forest leaves aside, rounded down; .1 is that of the authors'
        public code.
    steady : float, default=0.05
        Mean change of the clusters' sizes, relative to their sizes, at which the iterations end; from good
        clusters they end after the first one. With 0 they go on as in the authors' public code, which makes all 50.
    random_state : int, optional
        Seed.

    Attributes
    ----------
    labels_ : ndarray of shape (n_texts,)
        Clusters of the last iteration, int64.
    start_ : ndarray of shape (n_texts,)
        Clusters that the iterations started from.
    n_iter_ : int
        Number of iterations.
    """

    n_clusters: int = 8
    start: str | Labels = "kmeans"
    iterations: int = 50
    least: float = 0.5
    most: float = 0.95
    outliers: float = 0.1
    steady: float = 0.05
    random_state: int | None = None

    def fit(self, X: Matrix, y: None = None) -> Self:
        """Fit on [n, d], dense or csr."""
        from sklearn.linear_model import LogisticRegression

        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, ensure_min_samples=2)
        if self.least > self.most:
            raise ValueError(f"least must be at most most, {self.most}, not {self.least}")
        random = check_random_state(self.random_state)
        seed, start = int(random.randint(2**31 - 1)), self.start
        if isinstance(start, str):
            component = get_clusterer(start)
            start = component.estimator(component.params, seed, n_clusters=self.n_clusters).fit_predict(X)
        self.start_: Labels = np.unique(start, return_inverse=True)[1].astype(np.int64)
        self.labels_, self.n_iter_ = self.start_, 0
        if len(np.unique(self.start_)) == 1:
            return self

        # it goes on from the weights before, since the labels are mostly the same
        classifier = LogisticRegression(warm_start=True)
        while self.n_iter_ < self.iterations:
            learned = self._draw_inner(X, self.labels_, random)
            others = np.setdiff1d(np.arange(X.shape[0]), learned, assume_unique=True)
            if not len(others):
                break
            classifier.fit(X[learned], self.labels_[learned])
            labels = self.labels_.copy()
            labels[others] = classifier.predict(X[others])
            old, new = np.bincount(self.labels_), np.bincount(labels, minlength=int(self.labels_.max()) + 1)
            self.labels_, self.n_iter_ = labels, self.n_iter_ + 1
            if np.mean(np.abs(new - old) / old) <= self.steady:
                break
        return self

    def _draw_inner(self, X: Matrix, labels: Labels, random: np.random.RandomState) -> NDArray[np.int64]:
        """Return the texts to learn from, ascending; at least one of each cluster."""
        n, k = len(labels), int(labels.max()) + 1
        limit = max(1, int(random.uniform(self.least, self.most) * n / k))
        depth = depths(X, labels, TREES, int(random.randint(2**31 - 1)))
        inner = []
        for c in range(k):
            members = np.flatnonzero(labels == c)
            kept = members[np.argsort(depth[members], kind="stable")[int(self.outliers * len(members)) :]]
            inner.append(kept if len(kept) <= limit else random.choice(kept, limit, replace=False))
        return np.sort(np.concatenate(inner))
