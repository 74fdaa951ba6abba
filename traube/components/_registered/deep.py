"""The deep clusterers of `traube.components._deep`: their recipes' values are a method's parameters."""

from traube.components._components import register_clusterer
from traube.components._deep import DEEP
from traube.components._deep.clusterer import LIBRARIES

for name, clusterer in DEEP.items():
    register_clusterer(
        name,
        clusterer.with_values,
        clusterer.defaults.model_dump(mode="json"),
        n_clusters="given",
        seeded=True,
        input_kind="encoder",
        version=clusterer.version,
        libraries=LIBRARIES,
        types=clusterer.types(),
    )
