"""The code that MLflow stores with a served clustering, and runs to load it from plain files, no pickles."""

from pathlib import Path

import numpy as np
import pandas as pd
from mlflow.models import set_model  # noqa: TID253 (only MLflow imports this file)
from mlflow.pyfunc import PythonModel, PythonModelContext  # noqa: TID253

from traube._grouping import served as serving


class ServedClustering(PythonModel):
    """A model that takes texts and returns cluster, distance to its center, key words, and whether a text fits."""

    def load_context(self, context: PythonModelContext) -> None:
        """Read the clustering, and the weights of its model where it brings them."""
        weights = context.artifacts.get("weights")
        self.served = serving.load(Path(context.artifacts["served"]), Path(weights) if weights else None)

    # by `list[str]` MLflow would make a list of a table, whose index and missing texts would be lost
    def predict(self, context: PythonModelContext, model_input: pd.DataFrame) -> pd.DataFrame:
        """Return what `Served.predict` says of each text, with the index of a Series or DataFrame."""
        return self.served.predict(np.ravel(model_input) if isinstance(model_input, np.ndarray) else model_input)


set_model(ServedClustering())
