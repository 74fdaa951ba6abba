import numpy as np
import pytest
from numpy.typing import NDArray


@pytest.fixture(scope="session")
def blobs() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """300 unit vectors in 20 dimensions about 4 directions, and which direction is whose."""
    rng = np.random.default_rng(0)
    gold = rng.integers(4, size=300)
    vectors = 4 * np.eye(20)[gold] + rng.normal(scale=0.3, size=(300, 20))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), gold
