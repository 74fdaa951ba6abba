"""The deep clusterers of `traube.deep`: their recipes' values are a method's parameters."""

from traube.deep import DEEP
from traube.deep.clusterer import LIBRARIES
from traube.methods.parts import register_clusterer

for name, clusterer in DEEP.items():
    register_clusterer(
        name,
        clusterer.with_values,
        clusterer.defaults.model_dump(mode="json"),
        takes_k=True,
        seeded=True,
        takes="encoder",
        version=clusterer.version,
        libraries=LIBRARIES,
        types=clusterer.types(),
    )
